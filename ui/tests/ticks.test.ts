import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { shortDuration, shortNumber } from "../src/charts/axes";
import { durationTicks, fraction, linearTicks, logTicks, padded, valueAt } from "../src/charts/ticks";

const ranges = fc
  .tuple(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.double({ noNaN: true, noDefaultInfinity: true }))
  .filter(([a, b]) => a !== b)
  .map(([a, b]) => padded([Math.min(a, b), Math.max(a, b)]));

describe("ticks", () => {
  it("lie in the range, rise, and are neither none nor many", () =>
    fc.assert(
      fc.property(ranges, fc.integer({ min: 2, max: 12 }), (range, target) => {
        const ticks = linearTicks(range, target);
        expect(ticks.length).toBeGreaterThanOrEqual(1);
        expect(ticks.length).toBeLessThanOrEqual(target * 3 + 1);
        ticks.forEach((tick, i) => {
          expect(Number.isFinite(tick)).toBe(true);
          expect(tick).toBeLessThanOrEqual(range[1]);
          if (i) expect(tick).toBeGreaterThan(ticks[i - 1]!);
        });
      }),
    ));

  it("are round", () => {
    expect(linearTicks([0, 10], 5)).toEqual([0, 2, 4, 6, 8, 10]);
    expect(linearTicks([-4, 5], 4)).toEqual([-4, -2, 0, 2, 4]);
    expect(linearTicks([0, 0.3], 3)).toEqual([0, 0.1, 0.2, 0.3]);
    expect(linearTicks([0, 3], 9, 1)).toEqual([0, 1, 2, 3]);
    expect(linearTicks([-1e308, 1e308], 4)).toEqual([-1e308, -5e307, 0, 5e307, 1e308]);
  });

  it("of a log scale are powers of ten, with steps between where there is room", () => {
    expect(logTicks([0.001, 1000], 8)).toEqual([0.001, 0.01, 0.1, 1, 10, 100, 1000]);
    expect(logTicks([1, 10], 6)).toEqual([1, 2, 5, 10]);
    expect(logTicks([1e-300, 1e300], 5).length).toBeLessThanOrEqual(7);
  });

  it("of durations are whole seconds, minutes, hours", () => {
    expect(durationTicks([0, 600], 5)).toEqual([0, 120, 240, 360, 480, 600]);
    expect(durationTicks([0, 7200], 4)).toEqual([0, 1800, 3600, 5400, 7200]);
  });

  it("map to the range and back, up to the ends of what a double holds", () =>
    fc.assert(
      fc.property(ranges, fc.double({ min: 0, max: 1, noNaN: true }), (range, at) => {
        const value = valueAt(at, range);
        expect(Number.isFinite(value)).toBe(true);
        if (range[1] / 2 - range[0] / 2 > 1e-290) expect(fraction(value, range)).toBeCloseTo(at, 3);
      }),
    ));

  it("are said shortly", () => {
    expect([0, 9999, 12_000, 2_500_000, 9.2e18].map(shortNumber)).toEqual(["0", "9 999", "12k", "2.5M", "9.2e18"]);
    expect([45, 90, 8100, 273_600].map(shortDuration)).toEqual(["45s", "1m30s", "2h15m", "3d4h"]);
  });
});
