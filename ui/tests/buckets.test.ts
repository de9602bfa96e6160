import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RunShare } from "../src/api";
import { waterfall } from "../src/state/buckets";
import { grouped } from "../src/state/fleet";
import { decode, encode, fleetPlace, GROUPS } from "../src/state/url";

const buckets = fc.dictionary(fc.constantFrom("productive", "hang", "down", "init", "other"), fc.nat(10_000));

describe("waterfall", () => {
  it("leaves no gap, loses no time, and puts the largest loss first", () => {
    fc.assert(
      fc.property(buckets, (given) => {
        const slices = waterfall(given);
        const whole = Object.values(given).reduce((a, b) => a + b, 0);
        expect(slices.reduce((sum, { seconds }) => sum + seconds, 0)).toBe(whole);
        slices.forEach((slice, i) => i && expect(slice.begins).toBeCloseTo(slices[i - 1]!.begins + slices[i - 1]!.share, 9));
        const losses = slices.slice(1).map(({ seconds }) => seconds);
        expect(losses).toEqual([...losses].sort((a, b) => b - a));
        expect(slices[0]!.bucket).toBe("productive");
      }),
    );
  });
});

const share = (run: string, nodes: string[], device_s: number): RunShare =>
  ({ run, name: run, project: "llm", user: "", partition: "gpu", nodes, device_s, buckets_device_s: { productive: device_s }, interruptions: 1 }) as unknown as RunShare;

describe("grouped", () => {
  it("keeps all device time whatever it is grouped by", () => {
    const runs = [share("a", ["n1", "n2"], 100), share("b", ["n2"], 50), share("c", [], 10)];
    for (const group of GROUPS) expect(grouped(runs, group).reduce((sum, row) => sum + row.device_s, 0)).toBeCloseTo(160, 9);
    expect(grouped(runs, "node").map(({ key, device_s }) => [key, device_s])).toEqual([
      ["n2", 100],
      ["n1", 50],
      ["unknown", 10],
    ]);
  });
});

describe("fleet place", () => {
  it("survives its URL", () => {
    const place = fleetPlace({ project: "a b", since: "24h", group: "node" });
    const [path, query] = encode(place).split("?");
    expect(decode(path!, query ?? "")).toEqual(place);
  });
});
