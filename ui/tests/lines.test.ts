import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LogLine } from "../src/api";
import { append, indexOf, lastOf, nextMatch, plain, prepend, unfold } from "../src/state/lines";

const entry = (n: number, repeats = 1): LogLine => ({ n, text: `line ${n}`, at: null, n_last: repeats > 1 ? n + repeats - 1 : null, repeats, truncated: 0 });
const run = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => entry(from + i));
const numbers = (lines: LogLine[]) => lines.map((line) => line.n);

describe("words of a source", () => {
  it("are the last state of a progress bar, without terminal codes", () => {
    expect(plain("10%|#\r 60%|###\r100%|#####\r\n")).toBe("100%|#####");
    expect(plain("\r\r")).toBe("");
    expect(plain("\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07\x00\x07\ttab")).toBe("red link\ttab");
  });

  it("never keep a control character but the tab", () =>
    fc.assert(fc.property(fc.string({ unit: "binary" }), (raw) => void expect(plain(raw)).not.toMatch(/[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]/))));
});

describe("pages of lines", () => {
  it("join into one ascending list, whatever their overlap", () =>
    fc.assert(
      fc.property(fc.nat(50), fc.nat(50), fc.nat(50), (start, length, overlap) => {
        const known = run(start, start + length);
        const next = run(Math.max(start, start + length - overlap), start + length + 20);
        expect(numbers(append(known, next))).toEqual(numbers(run(start, start + length + 20)));
        expect(numbers(prepend(next, known))).toEqual(numbers(run(start, start + length + 20)));
      }),
    ));

  it("let a fold grow in place", () => {
    const grown = append([entry(1), entry(2, 5)], [entry(2, 9), entry(11)]);
    expect(grown.map((line) => [line.n, lastOf(line)])).toEqual([
      [1, 1],
      [2, 10],
      [11, 11],
    ]);
  });

  it("open a fold into its lines and find lines inside of folds", () => {
    const folded = [entry(1), entry(2, 3), entry(5)];
    expect(indexOf(folded, 3)).toBe(1);
    expect(indexOf(folded, 9)).toBe(-1);
    expect(numbers(unfold(folded, 2, run(2, 6)))).toEqual([1, 2, 3, 4, 5]);
  });
});

describe("jumping between matches", () => {
  it("goes on from the line, and around the ends", () => {
    expect(nextMatch([3, 8], null, 1)).toBe(3);
    expect(nextMatch([3, 8], 3, 1)).toBe(8);
    expect(nextMatch([3, 8], 8, 1)).toBe(3);
    expect(nextMatch([3, 8], 3, -1)).toBe(8);
    expect(nextMatch([3, 8], null, -1)).toBe(8);
    expect(nextMatch([], 3, 1)).toBeNull();
  });
});
