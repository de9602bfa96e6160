/** Pacing of work that updates ask for. */

/** A function that runs `work` at once, then at most every `ms`; calls in between become one more run at the end. */
export function paced(work: () => void, ms: number): { (): void; stop(): void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let again = false;
  const run = () => {
    again = false;
    work();
    timer = setTimeout(() => {
      timer = undefined;
      if (again) run();
    }, ms);
  };
  const call = () => {
    if (timer === undefined) run();
    else again = true;
  };
  return Object.assign(call, { stop: () => clearTimeout(timer) });
}
