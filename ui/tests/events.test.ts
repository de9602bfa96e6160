import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Diagnosis, RunEvent } from "../src/api";
import { at, bands, flags, widened } from "../src/charts/marks";
import { byAttempt, confidence, headline, proofPlace } from "../src/state/diagnosis";
import { chosen, endOf, lastedOf, merged, placed, whereOf } from "../src/state/events";
import { encode } from "../src/state/url";

const ORIGIN = Date.parse("2026-01-01T00:00:00Z");
const instant = (second: number): string => new Date(ORIGIN + second * 1000).toISOString();

function event(more: Partial<RunEvent> & { begin?: number; end?: number | null } = {}): RunEvent {
  const { begin = 0, end = null, ...rest } = more;
  return {
    id: "e1", type: "hang", started_at: instant(begin), ended_at: end === null ? null : instant(end), attempt: 1, step: null, rank: null, title: "", data: {}, run: "run_1",
    run_name: null, project: null, detector: "hang/1", certainty: "confirmed", severity: "critical", detected_at: null, ranks: [], nodes: [], devices: [], ...rest,
  };
}

type Attempts = Parameters<typeof placed>[2]["attempts"];
const attempt = (number: number, begin: number, end: number | null, first: number | null, last: number | null): Attempts[number] =>
  ({ key: String(number), number, state: "finished", exit_code: 0, signal: null, reason: null, nodes: [], ranks: 1, started_at: instant(begin), ended_at: end === null ? null : instant(end), first_step: first, last_step: last });

describe("events on an axis", () => {
  const attempts = [attempt(1, 0, 100, 0, 50), attempt(2, 200, null, 40, null)];
  const run = { started_at: instant(0), attempts };
  const on = (axis: "step" | "time" | "relative", ...events: RunEvent[]) => placed(events, axis, run).map(({ from, to }) => [from, to]);

  it("stand at their time, from the run's start on the relative one", () => {
    expect(on("relative", event({ begin: 10, end: 30 }))).toEqual([[10, 30]]);
    expect(on("time", event({ begin: 10, end: 30 }))).toEqual([[ORIGIN / 1000 + 10, ORIGIN / 1000 + 30]]);
  });

  it("end with their attempt, and go on while it does", () => {
    expect(on("relative", event({ begin: 10 }))).toEqual([[10, 100]]);
    expect(on("relative", event({ begin: 210, attempt: 2 }))).toEqual([[210, Infinity]]);
    expect(on("relative", event({ begin: 210, attempt: 2, detector: null }))).toEqual([[210, 210]]);
  });

  it("stand at their step, else at the one that their time stands for", () => {
    expect(on("step", event({ begin: 50, end: 75, step: 20 }))).toEqual([[20, 35]]);
    expect(on("step", event({ begin: 50, end: 80 }))).toEqual([[25, 40]]);
  });

  it("do not move on during a hang at the last step", () => {
    expect(on("step", event({ begin: 20, step: 50 }))).toEqual([[50, 50]]);
  });

  it("are left out where nothing tells their step", () => {
    expect(on("step", event({ attempt: null, begin: 5 }))).toEqual([]);
    expect(placed([event({ begin: 5 })], "relative", { started_at: null, attempts })).toEqual([]);
  });
});

describe("marks", () => {
  const spans = fc.array(fc.tuple(fc.double({ min: 0, max: 100, noNaN: true }), fc.double({ min: 0, max: 50, noNaN: true }), fc.constantFrom("info", "warning", "critical"), fc.constantFrom("suspected", "confirmed")), { maxLength: 60 });
  const marks = spans.map((list) => list.map(([from, long, severity, certainty], i) => ({ from, to: from + long, event: event({ id: String(i), severity, certainty }) })));

  it("of a kind never lie upon each other, and never leave the range", () =>
    fc.assert(
      fc.property(marks, (all) => {
        const found = bands(all, [20, 80]);
        for (const a of found) {
          expect(a.from).toBeGreaterThanOrEqual(20);
          expect(a.to).toBeLessThanOrEqual(80);
          for (const b of found) if (a !== b && a.severity === b.severity && a.sure === b.sure) expect(a.to < b.from || b.to < a.from).toBe(true);
        }
      }),
    ));

  it("show every event in view by one flag, with room between flags", () =>
    fc.assert(
      fc.property(marks, (all) => {
        const found = flags(all, { range: [20, 80], width: 300, whole: false });
        const inView = all.filter(({ from, to }) => to >= 20 && from <= 80).map(({ event: { id } }) => id);
        expect(found.flatMap(({ events }) => events.map(({ id }) => id)).sort()).toEqual(inView.sort());
        for (let i = 1; i < found.length; i++) expect((found[i]!.at - found[i - 1]!.at) * 300).toBeGreaterThanOrEqual(18);
      }),
    ));

  it("take the worst severity, and are sure when one of them is", () => {
    const near = [event({ id: "a", severity: "info", certainty: "suspected" }), event({ id: "b", severity: "critical" })].map((one, i) => ({ from: i / 100, to: i / 100, event: one }));
    expect(flags(near, { range: [0, 1], width: 300, whole: true })).toMatchObject([{ severity: "critical", sure: true }]);
  });

  it("have room beside the points, though not so much that these shrink to nothing", () => {
    const mark = (from: number, to = from) => ({ from, to, event: event() });
    expect(widened([0, 100], [])).toEqual([0, 100]);
    expect(widened([0, 100], [mark(-5), mark(104, 110)])).toEqual([-5, 110]);
    expect(widened([0, 100], [mark(1e6), mark(90, Infinity)])).toEqual([0, 100]);
    expect(widened([0, 100], [mark(90, 1e6)])).toEqual([0, 115]);
    expect(flags([mark(1e6)], { range: [0, 115], width: 300, whole: true })).toMatchObject([{ at: 1 }]);
    expect(flags([mark(1e6)], { range: [0, 115], width: 300, whole: false })).toEqual([]);
  });

  it("are found under the pointer while they go on", () => {
    const mark = { from: 10, to: Infinity, event: event() };
    expect([at([mark], 8, 1), at([mark], 9.5, 1), at([mark], 1e6, 1)].map((found) => found.length)).toEqual([0, 1, 1]);
  });
});

describe("lists of events", () => {
  it("put news in the place of what they replace, and drop what is withdrawn", () => {
    const old = [event({ id: "a", begin: 1 }), event({ id: "b", begin: 2 })];
    const news = [event({ id: "a", begin: 1, certainty: "withdrawn" }), event({ id: "c", begin: 0 }), event({ id: "b", begin: 2, title: "new" })];
    expect(merged(old, news).map(({ id, title }) => [id, title])).toEqual([["c", ""], ["b", "new"]]);
  });

  it("are chosen by type, certainty and severity together", () => {
    expect(chosen(event(), { type: "hang", certainty: "confirmed", severity: "" })).toBe(true);
    expect(chosen(event(), { type: "hang", certainty: "suspected", severity: "" })).toBe(false);
  });

  it("say whom they are about and how long they went on", () => {
    expect(whereOf({ ranks: [10, 9], nodes: ["n2"], devices: [] })).toBe("rank 9, 10 · n2");
    expect(whereOf({ ranks: [0, 1, 2, 3, 4, 5, 6], nodes: [], devices: [] })).toBe("7 ranks");
    expect([lastedOf(event()), lastedOf(event(), []), lastedOf(event(), [attempt(1, 0, 9, 0, 1)]), lastedOf(event({ end: 90 }), [])]).toEqual(["no end seen", "goes on", "to the end", "1 min 30 s"]);
    expect(endOf(event({ begin: 5, end: 3 }), [])).toBe(ORIGIN + 5000);
  });
});

describe("a diagnosis", () => {
  const cause = { label: "gpu_oom", layer: "framework", confidence: 0.997, decided_by: "log", summary: "memory", evidence: [], suspects: {} };
  const made = (outcome: "healthy" | "degraded" | "failed" | "unknown", causes: object[]) => ({ run: "r", attempt: 1, event: null, made_at: "", version: 1, document: { outcome, causes } }) as unknown as Diagnosis;

  it("is said at the head of a run where something is wrong, and where a failure has no proven cause", () => {
    const of = (state: "failed" | "finished" | "running", diagnosis: Diagnosis) => headline(diagnosis, [{ ...attempt(1, 0, 9, 0, 1), state }]);
    expect(of("running", made("failed", [cause]))?.cause?.label).toBe("gpu_oom");
    expect(of("failed", made("failed", []))).toEqual({ cause: null, outcome: "failed" });
    expect([of("finished", made("failed", [])), of("running", made("failed", []))]).toEqual([null, null]);
    expect([of("failed", made("healthy", [])), of("failed", made("unknown", [])), of("failed", made("degraded", []))]).toEqual([null, null, null]);
  });

  it("is found for every attempt that has a cause and an address", () => {
    const one = (attempt: number, event: string | null, causes: object[]) => ({ ...made("failed", causes), attempt, event });
    const found = byAttempt([one(3, null, []), one(2, null, [cause]), one(1, "e2", [cause]), one(1, "e1", [cause])]);
    expect(found.map(({ attempt, event }) => [attempt, event])).toEqual([[1, "e2"]]);
    expect(byAttempt([one(2, null, [cause]), one(1, "e1", [cause])]).map(({ attempt }) => attempt)).toEqual([2, 1]);
  });

  it("leads to the line, or to the window of a chart", () => {
    const proof = { kind: "log", source: "s", line: 7, last_line: 7, count: 1, time: null, rank: null, node: null, text: "", stream: null, event: null, chart: null };
    expect(encode(proofPlace("r", { ...proof, stream: "3" })!)).toBe("runs/r/logs?stream=3&line=7");
    expect(encode(proofPlace("r", { ...proof, chart: { metric: "system/x", from_t: instant(0), to_t: instant(60) } })!)).toBe(`runs/r/system?x=time&from=${ORIGIN / 1000}&to=${ORIGIN / 1000 + 60}&card=system%2Fx`);
    expect(proofPlace("r", proof)).toBeNull();
  });

  it("never says 100 % of what is not certain", () => expect([0.997, 0.5, 1].map(confidence)).toEqual(["99 %", "50 %", "100 %"]));
});
