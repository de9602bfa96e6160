import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { along, stretches } from "../src/charts/draw";
import { holes, label, nearest, shape, summary } from "../src/charts/shape";
import { chart, line } from "./made";

const plain = { smooth: 0, log: false, band: true };

describe("the shape of a chart", () => {
  it("covers every spike, with and without a band", () => {
    const spiked = line([1, 1, 1], { max: [1, 900, 1], count: [1, 50, 1] });
    for (const band of [true, false]) {
      const { y } = shape(chart([spiked]), { ...plain, band });
      expect(y[1]).toBeGreaterThanOrEqual(900);
    }
    expect(shape(chart([spiked]), plain).strokes[0]!.high).toEqual([1, 900, 1]);
  });

  it("holds all finite values in a finite range, whatever they are", () =>
    fc.assert(
      fc.property(fc.array(fc.double(), { minLength: 1 }), fc.boolean(), (values, log) => {
        const { y, x } = shape(chart([line(values)]), { ...plain, log });
        expect(Number.isFinite(y[0]) && Number.isFinite(y[1]) && y[0] < y[1]).toBe(true);
        expect(x[0]).toBeLessThan(x[1]);
        if (log) expect(y[0]).toBeGreaterThan(0);
        for (const value of values.filter((value) => Number.isFinite(value) && (!log || value > 0))) {
          expect(value).toBeGreaterThanOrEqual(y[0]);
          expect(value).toBeLessThanOrEqual(y[1]);
        }
      }),
    ));

  it("leaves what is not positive off a log scale and counts it", () => {
    const { strokes, nonPositive } = shape(chart([line([-1, 0, 10])]), { ...plain, log: true });
    expect(strokes[0]!.y).toEqual([null, null, 10]);
    expect(nonPositive).toBe(2);
  });

  it("draws abandoned branches first, in the colour of the line that went on", () => {
    const drawn = shape(chart([line([1], { rank: 0 }), line([1], { rank: 1 }), line([2], { rank: 1, abandoned: true })]), plain);
    expect(drawn.strokes.map((stroke) => stroke.line.abandoned)).toEqual([true, false, false]);
    expect(drawn.strokes[0]!.hue).toBe(drawn.strokes[2]!.hue);
    expect(drawn.strokes[0]!.dashed).toBe(true);
  });

  it("has no bands among many lines, and dashes once the colours are used up", () => {
    const many = Array.from({ length: 12 }, (_, rank) => line([1, 2], { rank, min: [0, 0], count: [5, 5] }));
    const { strokes } = shape(chart(many), plain);
    expect(strokes.every((stroke) => stroke.low === null)).toBe(true);
    expect(strokes.map((stroke) => stroke.dashed)).toEqual(many.map((_, i) => i >= 8));
  });

  it("merges neighbouring values that are not finite, and counts each kind", () => {
    const found = holes(line([1, NaN, NaN, Infinity, 2, -Infinity]));
    expect(found).toEqual([
      { from: 1, to: 3, nan: 2, up: 1, down: 0 },
      { from: 5, to: 5, nan: 0, up: 0, down: 1 },
    ]);
  });

  it("marks a stretch of infinities along its whole length, and a moment once", () => {
    expect(along(10, 10, 22)).toEqual([10]);
    expect(along(0, 100, 22)).toEqual([0, 22, 44, 66, 88]);
  });

  it("says itself to those who can't see it", () => {
    const drawn = shape(chart([line([1, NaN, 3])]), plain);
    expect(summary(chart([]), drawn, String)).toBe("loss over step: 3 points, from 1 to 3, 1 not finite");
    const none = shape(chart([]), plain);
    expect(summary(chart([], { empty_reason: "no points yet" }), none, String)).toBe("loss over step: no points yet");
  });

  it("names lines", () => {
    expect(label(line([1]))).toBe("all ranks");
    expect(label(line([1], { rank: 3, device: 0, abandoned: true, attempt: 2 }))).toBe("rank 3 · device 0 · attempt 2, abandoned");
  });
});

describe("finding the nearest bucket", () => {
  it("agrees with looking at all of them", () =>
    fc.assert(
      fc.property(fc.uniqueArray(fc.integer({ min: -1000, max: 1000 }), { minLength: 1 }), fc.integer({ min: -1100, max: 1100 }), (found, x) => {
        const xs = found.sort((a, b) => a - b);
        const best = Math.min(...xs.map((one) => Math.abs(one - x)));
        expect(Math.abs(xs[nearest(xs, x)]! - x)).toBe(best);
      }),
    ));
  it("says -1 for none", () => expect(nearest([], 3)).toBe(-1));
});

describe("unbroken stretches", () => {
  it("end where either column has no value", () => {
    expect(stretches([1, 2, null, 4, 5], [1, 2, 3, 4, null])).toEqual([
      [0, 1],
      [3, 3],
    ]);
  });
});
