/** The ledger's buckets as they are shown: in an order, with a tone and words for each. Pure. */

export interface Slice {
  bucket: string;
  seconds: number;
  /** Share of the whole, and where the slice begins as a share of the whole. */
  share: number;
  begins: number;
}

/** What a bucket says of the time in it; tones are classes of goodput.css. */
export const BUCKETS: Record<string, { tone: string; meaning: string }> = {
  productive: { tone: "gained", meaning: "moved the run forward" },
  queue_wait: { tone: "waited", meaning: "waited in the queue" },
  provision: { tone: "waited", meaning: "machines, images and data were made ready" },
  wait_for_nodes: { tone: "waited", meaning: "waited for nodes after a loss" },
  init: { tone: "begun", meaning: "the program started" },
  restore: { tone: "begun", meaning: "a checkpoint was loaded" },
  compile: { tone: "begun", meaning: "the program was compiled" },
  data_wait: { tone: "held", meaning: "steps waited for data" },
  checkpoint_save: { tone: "held", meaning: "a checkpoint held the loop up" },
  evaluation: { tone: "held", meaning: "the model was evaluated" },
  slow_steps: { tone: "held", meaning: "steps took longer than the ideal one" },
  recompute: { tone: "lost", meaning: "work that was lost and done again, or is missing" },
  hang: { tone: "lost", meaning: "nothing moved" },
  down: { tone: "lost", meaning: "nobody ran it" },
  idle: { tone: "other", meaning: "said itself that it had nothing to do" },
  other: { tone: "other", meaning: "not covered by steps or phases" },
};

/** What was productive, then the losses by size, each where the one before it ended; empty buckets are left out. */
export function waterfall(buckets: Record<string, number>): Slice[] {
  const whole = Object.values(buckets).reduce((sum, seconds) => sum + seconds, 0);
  const losses = Object.entries(buckets).filter(([bucket, seconds]) => bucket !== "productive" && seconds > 0);
  losses.sort((a, b) => b[1] - a[1]);
  let begins = 0;
  return [["productive", buckets.productive ?? 0] as const, ...losses].map(([bucket, seconds]) => {
    const share = whole ? seconds / whole : 0;
    const slice = { bucket, seconds, share, begins };
    begins += share;
    return slice;
  });
}

export const percent = (share: number | null | undefined): string => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)} %`);

export const named = (bucket: string): string => bucket.replaceAll("_", " ");
