import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { smooth } from "../src/charts/ema";

const ones = (values: unknown[]) => values.map(() => 1);

describe("smoothing", () => {
  it("is TensorBoard's debiased average", () => {
    // last = last * w + (1 - w) * v; shown = last / (1 - w^n), by hand for w = 0.5 and 4, 8, 0.
    expect(smooth([4, 8, 0], [1, 1, 1], 0.5)).toEqual([2 / 0.5, 5 / 0.75, 2.5 / 0.875]);
  });

  it("leaves a constant and its first value as they are", () =>
    fc.assert(
      fc.property(fc.double({ min: -1e9, max: 1e9, noNaN: true }), fc.double({ min: 0, max: 0.99, noNaN: true }), (value, weight) => {
        for (const shown of smooth([value, value, value], [1, 1, 1], weight)) expect(shown).toBeCloseTo(value, 3);
      }),
    ));

  it("without weight is the line itself", () =>
    fc.assert(
      fc.property(fc.array(fc.double({ noNaN: true, min: -1e100, max: 1e100 })), (values) => {
        expect(smooth(values, ones(values), 0).map((value) => (value ?? 0) + 0)).toEqual(values.map((value) => value + 0));
      }),
    ));

  it("stays within what it has seen", () =>
    fc.assert(
      fc.property(fc.array(fc.double({ min: -100, max: 100, noNaN: true }), { minLength: 1 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (values, weight) => {
        for (const shown of smooth(values, ones(values), weight)) {
          expect(shown!).toBeGreaterThanOrEqual(Math.min(...values) - 1e-6);
          expect(shown!).toBeLessThanOrEqual(Math.max(...values) + 1e-6);
        }
      }),
    ));

  it("is not poisoned by a bucket without a finite value", () => {
    const [a, hole, b] = smooth([2, null, 2], [1, 3, 1], 0.9);
    expect(hole).toBeNull();
    expect(a).toBeCloseTo(2);
    expect(b).toBeCloseTo(2);
  });

  it("counts a bucket of n points as n updates", () => {
    const single = smooth([5, 5, 5, 1], [1, 1, 1, 1], 0.7).at(-1)!;
    expect(smooth([5, 1], [3, 1], 0.7).at(-1)!).toBeCloseTo(single, 12);
  });
});
