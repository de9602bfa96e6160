/** The newest lines of a node's kernel log. */

import { get, type LogPage, type LogStream, runPath } from "../api";
import { Tail } from "../parts/tail";
import { logPath } from "../state/log-window";
import { plain } from "../state/lines";
import { href } from "../state/place";
import { usePolled } from "../state/polled";
import { runPlace } from "../state/url";
import { clockMillis } from "../words";

const POLL_MS = 5000;
const TAIL = 100;

export function KernelLog({ run }: { run: string }) {
  const { value: lines, problem } = usePolled(`${run} kernel`, POLL_MS, (signal) => newest(run, signal));
  return (
    <section>
      <div class="row">
        <h2 class="grow">Kernel log</h2>
        {lines && lines.length > 0 && (
          <a class="link" href={href(runPlace(run, { tab: "logs" }))}>
            All of it
          </a>
        )}
      </div>
      {problem && <p class="soft">{problem.status === 404 ? "The kernel log belongs to the project _nodes, which this token may not see." : problem.message}</p>}
      {lines?.length === 0 && <p class="soft">Nothing since its agent has started; an agent that may not read /dev/kmsg sees nothing.</p>}
      {lines && lines.length > 0 && (
        <Tail label="Kernel log" text={lines.map((line) => `${clockMillis(line.at)}  ${plain(line.text)}${line.repeats > 1 ? `  ×${line.repeats}` : ""}`).join("\n")} />
      )}
    </section>
  );
}

async function newest(run: string, signal: AbortSignal): Promise<LogPage["lines"]> {
  const streams = await get<LogStream[]>(runPath(run, "/logs"), { signal });
  const kernel = streams.filter(({ stream }) => stream === "kernel").sort((a, b) => b.attempt - a.attempt)[0];
  return kernel ? (await get<LogPage>(logPath(run, kernel.id), { query: { tail: TAIL, limit: TAIL }, signal })).lines : [];
}
