/** Loading again and again what the server sends no updates of: queues, nodes, operations. It rests while the page is hidden. */

import { useEffect } from "preact/hooks";
import { type Loaded, useLoad } from "./load";

export function usePolled<T>(key: string | null, ms: number, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const loaded = useLoad(key, load);
  const { loading, reload } = loaded;
  useEffect(() => {
    // A slow server is waited for: the pause begins when it has answered.
    if (key === null || loading) return;
    const timer = setInterval(() => document.hidden || reload(), ms);
    return () => clearInterval(timer);
  }, [key, loading, reload, ms]);
  return loaded;
}
