import { describe, expect, it } from "vitest";
import type { Comparison, Run } from "../src/api";
import { compared, type Member, pooled } from "../src/charts/compare";
import { csv } from "../src/charts/csv";
import { shape } from "../src/charts/shape";
import { members, settings } from "../src/state/compared";
import { line } from "./made";

const comparison = (lines: Record<string, number[]>): Comparison => ({
  metric: "loss",
  unit: "",
  x: "step",
  lines: Object.entries(lines).map(([run, values]) => ({ ...line(values), run })),
});
const member = (run: string, key: string, hue: number): Member => ({ run, key, name: key, hue });
const runs = (...names: string[]) => names.map((name, i) => ({ id: `run_${i}`, name })) as Run[];
const configs = new Map([
  ["run_0", new Map<string, unknown>([["lr", 0.1], ["depth", 12]])],
  ["run_1", new Map<string, unknown>([["lr", 0.2], ["depth", 12]])],
  ["run_2", new Map<string, unknown>([["depth", 12], ["lr", 0.1], ["note", "last"]])],
]);

describe("a comparison as a chart", () => {
  it("calls each line after its run and keeps its colour where others have no points", () => {
    const chart = compared(comparison({ b: [1, 2] }), [member("a", "a", 0), member("b", "b", 1)]);
    const [stroke] = shape(chart, { smooth: 0, log: false, band: true }).strokes;
    expect([stroke!.label, stroke!.hue]).toEqual(["b", 1]);
  });

  it("says so where no run has points", () => {
    const chart = compared(comparison({}), [member("a", "a", 0)]);
    expect([chart.lines, chart.empty_reason]).toEqual([[], "None of these runs has points of it here."]);
  });

  it("puts runs of one key together and counts those that have points", () => {
    const chart = compared(comparison({ a: [1, 3], b: [3, 5], c: [9, 9] }), ["a", "b", "x"].map((run) => member(run, "lr 0.1", 0)).concat(member("c", "lr 0.2", 1)));
    const strokes = shape(chart, { smooth: 0, log: false, band: true }).strokes;
    expect(strokes.map(({ label, y, low, high }) => [label, y, low, high])).toEqual([
      ["lr 0.1 (2 runs)", [2, 4], [1, 3], [3, 5]],
      ["lr 0.2", [9, 9], null, null],
    ]);
  });

  it("names the lines in its CSV", () => {
    const chart = compared(comparison({ a: [1] }), [member("a", "first", 0)]);
    expect(csv(chart).split("\r\n").slice(0, 2).map((row) => row.split(",")[2])).toEqual(["name", "first"]);
  });
});

describe("several lines as one", () => {
  it("weighs a line of slow pace like one of fast pace", () => {
    const slow = { ...line([10, 10, 10]), x: [0, 2, 4], x_last: [0, 2, 4] };
    expect(pooled([slow, line([0, 0, 0, 0, 0])]).mean).toEqual([5, 5, 5, 5, 5]);
  });

  it("does not go on with a line beyond its end", () => {
    expect(pooled([line([8, 8]), line([2, 2, 2, 2])]).mean).toEqual([5, 5, 2, 2]);
  });

  it("covers every spike, and keeps what is not finite", () => {
    const spiked = line([1, 1, NaN], { max: [1, 900, null], count: [1, 50, 1] });
    const { max, n_nan, count, mean } = pooled([spiked, line([3, 3, 3])]);
    expect([max, n_nan, count, mean]).toEqual([[3, 900, 3], [0, 0, 1], [2, 51, 2], [2, 2, 3]]);
  });

  it("is a line also where all that its lines have is NaN", () => {
    expect(pooled([line([NaN]), line([NaN])])).toMatchObject({ x: [0], mean: [null], min: [null], max: [null], n_nan: [2] });
  });
});

describe("runs side by side", () => {
  it("differ in what is not the same everywhere, or is missing somewhere", () => {
    expect(settings(runs("a", "b", "c"), configs)).toEqual({ differing: ["lr", "note"], same: ["depth"] });
  });

  it("are told apart where they have one name", () => {
    expect(members(runs("a", "b", "a"), "", configs).map(({ name, hue }) => [name, hue])).toEqual([["a · un_0", 0], ["b", 1], ["a · un_2", 2]]);
  });

  it("are together where they have the same at a path", () => {
    expect(members(runs("a", "b", "c"), "lr", configs).map(({ key, name, hue }) => [key, name, hue])).toEqual([["0.1", "lr 0.1", 0], ["0.2", "lr 0.2", 1], ["0.1", "lr 0.1", 0]]);
  });
});
