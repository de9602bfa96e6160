import { describe, expect, it } from "vitest";
import type { Run } from "../src/api";
import { columnsOf, turned } from "../src/views/columns";
import { quoted, rows, search } from "../src/state/leaves";

const run = (latest: Record<string, number>): Run => ({ latest: Object.fromEntries(Object.entries(latest).map(([name, value]) => [name, { step: 1, value }])) }) as Run;

describe("columns of the runs", () => {
  it("begin with losses, never with readings of the machine", () => {
    const ids = columnsOf([], [run({ "system/host/cpu": 1, a: 1, "val/loss": 1, loss: 1 })]).map((column) => column.id);
    expect(ids.slice(0, 4)).toEqual(["state", "step", "metric:loss", "metric:val/loss"]);
    expect(ids.join()).not.toContain("system");
  });

  it("say the project where there are several", () => {
    const of = (...projects: string[]) => columnsOf([], projects.map((project) => ({ ...run({}), project }) as Run)).map(({ id }) => id);
    expect(of("llm", "vision").slice(0, 3)).toEqual(["state", "project", "step"]);
    expect(of("llm", "llm")).not.toContain("project");
  });

  it("are those of the address, and sort by the server's keys", () => {
    const found = columnsOf(["metric:val/loss.mean", "config:optim.lr", "name:?", "state"], []);
    expect(found.map((column) => [column.id, column.sort])).toEqual([
      ["metric:val/loss.mean", 'metric."val/loss.mean"'],
      ["config:optim.lr", "config.optim.lr"],
      ["state", "state"],
    ]);
  });

  it("quote what the filter language would misread", () => {
    expect(["loss", "val/loss", 'a"b', "9x"].map(quoted)).toEqual(["loss", '"val/loss"', '"a\\"b"', '"9x"']);
  });

  it("turn round when clicked again", () => {
    expect(turned("-started_at", "metric.loss")).toBe("-metric.loss");
    expect(turned("-metric.loss", "metric.loss")).toBe("metric.loss");
    expect(turned("metric.loss", "metric.loss")).toBe("-metric.loss");
    expect(turned("-started_at", "name")).toBe("name");
  });
});

describe("configuration trees", () => {
  const tree = { optim: { lr: 0.1, betas: [0.9, 0.95] }, data: [{ path: "/a" }], empty: {} };
  it("become rows, branches before what is in them", () => {
    expect(rows(tree).map((row) => [row.path.join("."), row.children])).toEqual([
      ["optim", 2],
      ["optim.lr", null],
      ["optim.betas", null],
      ["data", 1],
      ["data.0", 1],
      ["data.0.path", null],
      ["empty", 0],
    ]);
    expect(rows(tree, (path) => path === "optim").map((row) => row.path.join("."))).toEqual(["optim", "data", "data.0", "data.0.path", "empty"]);
  });
  it("are searched by key and value", () => {
    expect(search(tree, "LR").map((row) => row.value)).toEqual([0.1]);
    expect(search(tree, "/a").map((row) => row.path.join("."))).toEqual(["data.0.path"]);
  });
});
