/** What states of clusters, nodes and operations are worth to a reader, and what is counted of them. Pure. */

import type { Cluster, ClusterNode, Node, NodeCheck, Operation } from "../api";
import type { Tone } from "../parts/chip";

export const CLUSTER_TONES: Record<Cluster["state"], Tone> = {
  ready: "good",
  creating: "live",
  updating: "live",
  deleting: "warn",
  degraded: "warn",
  failed: "bad",
};

export const HEARTBEAT_TONES: Record<Node["state"], Tone> = { live: "good", lost: "bad", stopped: "mute", unknown: "mute" };
export const CHECK_TONES: Record<NodeCheck["result"], Tone> = { ok: "good", bad: "bad", unknown: "mute" };
export const OPERATION_TONES: Record<Operation["state"], Tone> = { running: "live", done: "good", failed: "bad", interrupted: "warn" };

const BUSY = new Set(["allocated", "mixed", "completing"]);
const FREE = new Set(["idle", "planned", "reserved"]);
const AWAY = new Set(["powered_down", "powering_down", "powering_up", "unknown", "future"]);
const KEPT = new Set(["drained", "draining", "maintenance", "reboot_issued"]);

/** The tone of a node by Slurm's word for it; a word that is not known is no good news. */
export function nodeTone(state: string): Tone {
  if (BUSY.has(state)) return "live";
  if (FREE.has(state)) return "good";
  if (AWAY.has(state)) return "mute";
  return KEPT.has(state) ? "warn" : "bad";
}

/** What an administrator may do to a node in that state: take it out of service, or give it back. */
export const nodeVerb = (state: string): "drain" | "resume" => (["drained", "draining", "down", "fail", "error"].includes(state) ? "resume" : "drain");

/** Slurm's words with blanks, as people read them. */
export const plainState = (state: string): string => state.replaceAll("_", " ");

/** How many nodes may run jobs, how many are switched off or not heard of, and how many are out of service. */
export function tally(nodes: readonly Pick<ClusterNode, "state">[]): { up: number; away: number; out: number } {
  const found = { up: 0, away: 0, out: 0 };
  for (const { state } of nodes) found[BUSY.has(state) || FREE.has(state) ? "up" : AWAY.has(state) ? "away" : "out"]++;
  return found;
}

/** Steps done, of how many, and the one that is under way or failed. */
export function progress({ steps }: Pick<Operation, "steps">): { done: number; total: number; at: string | null } {
  const at = steps.find(({ state }) => state === "running" || state === "failed");
  return { done: steps.filter(({ state }) => state === "done").length, total: steps.length, at: at?.title ?? null };
}

/** Bad checks first, then those that nobody knows of. */
export function byConcern(checks: readonly NodeCheck[]): NodeCheck[] {
  const concern = { bad: 0, unknown: 1, ok: 2 };
  return [...checks].sort((a, b) => concern[a.result] - concern[b.result] || a.name.localeCompare(b.name));
}

/** A pool's shape in words: `4 CPUs, 3.9 GiB, 2 h100`. */
export function shapeWords(shape: Record<string, unknown>, memory: (bytes: number) => string): string {
  const { cpus, memory_mb, gpus, gpu_type } = shape;
  const words = [`${String(cpus)} CPUs`, memory(Number(memory_mb) * 1024 ** 2)];
  if (Number(gpus) > 0) words.push(`${String(gpus)} ${typeof gpu_type === "string" && gpu_type ? gpu_type : "GPUs"}`);
  return words.join(", ");
}
