import { describe, expect, it } from "vitest";
import type { Series } from "../src/api";
import { CARD_HEIGHT, columnsFor, groups, inView, layout, matcher, PINNED } from "../src/charts/board";
import { csv } from "../src/charts/csv";
import { chart, line } from "./made";

const series = (metric: string): Series => ({ metric, unit: "", system: false, ranks: [0], devices: [], nodes: [], count: 1, first_step: 0, last_step: 1 });
const all = (...names: string[]) => names.map(series);
const any = /(?:)/u;

describe("a board of cards", () => {
  it("groups by what stands before the first slash, numbers in their order", () => {
    const found = groups(all("val/loss", "loss", "layer10/w", "layer2/w", "val/acc"), any, [], "");
    expect(found.map((group) => [group.name, group.series.map((one) => one.metric)])).toEqual([
      ["", ["loss"]],
      ["layer2", ["layer2/w"]],
      ["layer10", ["layer10/w"]],
      ["val", ["val/acc", "val/loss"]],
    ]);
  });

  it("shows pinned metrics first, in the order of pinning", () => {
    const found = groups(all("a", "b", "c"), any, ["c", "gone", "a"], "");
    expect(found[0]).toMatchObject({ name: PINNED, series: [{ metric: "c" }, { metric: "a" }] });
  });

  it("groups readings without their common prefix", () => {
    expect(groups(all("system/host/cpu", "system/device/power"), any, [], "system/").map((group) => group.name)).toEqual(["device", "host"]);
  });

  it("mounts few of 5,000 cards, and exactly those in view", () => {
    const { rows, height } = layout(groups(all(...Array.from({ length: 5000 }, (_, i) => `layer${i % 50}/w${i}`)), any, [], ""), 3, new Set());
    const view = inView(rows, height / 2, height / 2 + 900);
    expect(view.length).toBeLessThan(8);
    expect(rows.filter((row) => row.top <= height / 2 + 900 && row.top + row.height >= height / 2)).toEqual(view);
    expect(inView(rows, height + 1000, height + 2000)).toEqual([]);
  });

  it("hides the cards of a closed group", () => {
    const { rows } = layout(groups(all("a/x", "b/x"), any, [], ""), 2, new Set(["a"]));
    expect(rows.map((row) => row.kind)).toEqual(["group", "group", "cards"]);
    expect(rows.at(-1)!.height).toBe(CARD_HEIGHT);
  });

  it("has a column for each width of a card", () => expect([300, 700, 1100, 4000].map(columnsFor)).toEqual([1, 2, 3, 4]));

  it("says what is wrong with a pattern", () => {
    expect(matcher("loss|acc")).toBeInstanceOf(RegExp);
    expect(matcher("(loss")).toEqual(expect.any(String));
  });
});

describe("CSV of a chart", () => {
  it("has every bucket with exact numbers, and quotes names", () => {
    const text = csv(chart([line([-0, 1e308, NaN], { rank: 2 })], { metric: 'a,"b"' }));
    const rows = text.trimEnd().split("\r\n");
    expect(rows[0]).toBe("metric,unit,rank,device,node,attempt,abandoned,step,step_last,min,max,mean,first,last,count,n_nan,n_posinf,n_neginf");
    expect(rows[1]).toBe('"a,""b""",,2,,,1,false,0,0,-0.0,-0.0,-0.0,-0.0,-0.0,1,0,0,0');
    expect(rows[2]).toContain("1e+308");
    expect(rows[3]).toContain(",,,,,,1,1,0,0");
  });

  it("disarms a name that a spreadsheet would run", () => {
    expect(csv(chart([line([1])], { metric: "=cmd()" }))).toContain("'=cmd()");
  });
});
