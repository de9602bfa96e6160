import { describe, expect, it } from "vitest";
import { parse } from "../src/api";
import { ago, brief, bytes, count, duration, exact, middle, step, withUnit } from "../src/words";

describe("values in words", () => {
  it("are brief", () => {
    expect([0, -0, 0.1, 1234.5678, 1e-9, 1e308, 41263.25, 1000000].map(brief)).toEqual(["0", "-0", "0.1", "1234.6", "1e-9", "1e308", "41263", "1 000 000"]);
    expect(["NaN", "Infinity", "-Infinity"].map((value) => brief(value as "NaN"))).toEqual(["NaN", "+Inf", "−Inf"]);
  });

  it("are exact where it is asked for", () => {
    expect([0.1 + 0.2, -0, 1e308, null].map(exact)).toEqual(["0.30000000000000004", "-0.0", "1e+308", "–"]);
  });

  it("keep int64 steps whole, from the wire to the page", () => {
    const { step: read, value } = parse('{"step": 9223372036854775807, "value": 12345678901234567}') as { step: number; value: number };
    expect(step(read)).toBe("9 223 372 036 854 775 807");
    expect(value).toBe(12345678901234567);
    expect(step(-3)).toBe("-3");
  });

  it("have units", () => {
    expect(withUnit(3.5 * 2 ** 30, "B")).toBe("3.5 GiB");
    expect(withUnit(2048, "B/s")).toBe("2 KiB/s");
    expect(withUnit(61, "%")).toBe("61 %");
    expect([0, 100, 1536, 3 * 2 ** 40].map(bytes)).toEqual(["0 B", "100 B", "1.5 KiB", "3 TiB"]);
    expect([count(1, "line"), count(2, "line")]).toEqual(["1 line", "2 lines"]);
  });

  it("say how long and how long ago", () => {
    expect([0.042, 9, 61, 3600, 90_061].map(duration)).toEqual(["0.042 s", "9 s", "1 min 1 s", "1 h", "1 d 1 h"]);
    const now = Date.parse("2026-12-01T10:00:00Z");
    expect([null, "2026-12-01T09:59:58Z", "2026-12-01T09:00:00Z", "2026-12-01T11:00:00Z"].map((at) => ago(at, now))).toEqual(["–", "now", "1 h ago", "in 1 h"]);
  });

  it("keep both ends of a long name, and letters whole", () => {
    expect(middle("abcdefghij", 5)).toBe("ab…ij");
    expect(middle("🚀".repeat(9), 5)).toBe("🚀🚀…🚀🚀");
  });
});
