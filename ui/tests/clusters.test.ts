import { describe, expect, it } from "vitest";
import type { Series } from "../src/api";
import { byConcern, nodeTone, progress, shapeWords, tally } from "../src/state/clusters";
import { isScheduled, jobOf, lasting, nodesOf, verbsOf } from "../src/state/jobs";
import { bytes } from "../src/words";
import { ALL, nodeGroups, ofJobs, VITAL } from "../src/views/node-groups";

describe("nodes", () => {
  it("are good, busy, kept away, off or bad by Slurm's word; an unknown word is no good news", () => {
    expect(["idle", "mixed", "drained", "powered_down", "down", "not_responding", "fail", "some_new_word"].map(nodeTone)).toEqual(["good", "live", "warn", "mute", "bad", "bad", "bad", "bad"]);
  });

  it("are counted once each", () => {
    const states = ["idle", "allocated", "down", "draining", "powered_down", "unknown"].map((state) => ({ state }));
    expect(tally(states)).toEqual({ up: 2, away: 2, out: 2 });
  });

  it("list what concerns first", () => {
    const check = (name: string, result: "ok" | "bad" | "unknown") => ({ name, result, layer: "", severity: "", reason: "", value: null, at: null });
    expect(byConcern([check("a", "ok"), check("c", "unknown"), check("b", "unknown"), check("d", "bad")]).map(({ name }) => name)).toEqual(["d", "b", "c", "a"]);
  });

  it("say what they have", () => {
    expect(shapeWords({ cpus: 4, memory_mb: 4096, gpus: 2, gpu_type: "h100" }, bytes)).toBe("4 CPUs, 4 GiB, 2 h100");
    expect(shapeWords({ cpus: 4, memory_mb: 1024, gpus: 0 }, bytes)).toBe("4 CPUs, 1 GiB");
  });
});

describe("an operation", () => {
  it("says how many steps are done and which one is under way", () => {
    const steps = (["done", "running", "pending"] as const).map((state) => ({ key: state, title: `${state} step`, state, seconds: null }));
    expect(progress({ steps })).toEqual({ done: 1, total: 3, at: "running step" });
    expect(progress({ steps: steps.slice(0, 1) })).toEqual({ done: 1, total: 1, at: null });
  });
});

describe("jobs", () => {
  it("offer what can be done as they stand", () => {
    expect(verbsOf({ state: "queued", held: false })).toEqual(["hold", "cancel"]);
    expect(verbsOf({ state: "queued", held: true })).toEqual(["release", "cancel"]);
    expect(verbsOf({ state: "running", held: false })).toEqual(["requeue", "cancel"]);
    expect(verbsOf({ state: "failed", held: false })).toEqual([]);
  });

  it("last from their start, or wait from their submission", () => {
    const at = (second: number) => new Date(second * 1000).toISOString();
    expect(lasting({ state: "queued", submitted_at: at(0), started_at: null, ended_at: null }, 30_000)).toBe("30 s");
    expect(lasting({ state: "finished", submitted_at: at(0), started_at: at(10), ended_at: at(75) }, 999_000)).toBe("1 min 5 s");
    expect(lasting({ state: "queued", submitted_at: null, started_at: null, ended_at: null }, 0)).toBe("–");
  });

  it("name their nodes, or how many they want", () => {
    expect(nodesOf({ nodes: ["a", "b", "c"], node_count: 3 })).toBe("a, b +1");
    expect(nodesOf({ nodes: [], node_count: 4 })).toBe("4 wanted");
  });

  it("are found by the key of their run", () => {
    expect(jobOf({ key: "slurm:lab_0x21he:4_11" })).toEqual({ cluster: "lab_0x21he", job: "4_11" });
    expect(jobOf({ key: "slurm:lab:7@2" })).toEqual({ cluster: "lab", job: "7" });
    expect(jobOf({ key: "mine" })).toBeNull();
    expect(isScheduled({ key: null, attempts: [{ key: "slurm.0/rank" } as never] })).toBe(true);
    expect(isScheduled({ key: null, attempts: [{ key: "first" } as never] })).toBe(false);
  });
});

describe("readings of a node", () => {
  const series = ["system/disk/root/used", "system/job/1/cpu", "system/job/10/cpu", "system/host/cpu", "system/host/swap_used", "system/agent/cpu"].map((metric) => ({ metric }) as Series);
  const names = (pattern: RegExp, jobs: string[]) => nodeGroups(ofJobs(series, jobs), pattern, []).flatMap((group) => group.series.map(({ metric }) => metric));

  it("are the vital ones of it and of its present jobs, the host's first", () => {
    expect(names(VITAL, ["1"])).toEqual(["system/host/cpu", "system/job/1/cpu", "system/disk/root/used"]);
  });

  it("are all but the agent's own for a run", () => {
    expect(names(ALL, ["1", "10"])).toEqual(["system/host/cpu", "system/host/swap_used", "system/job/1/cpu", "system/job/10/cpu", "system/disk/root/used"]);
  });
});
