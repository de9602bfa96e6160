import { describe, expect, it } from "vitest";
import { specText } from "../src/state/specification";

describe("a specification as text", () => {
  it("is YAML as people write it: lists below each other, the rest in one line, nothing for what is null or empty", () => {
    const spec = {
      display_name: "my lab",
      project: null,
      provider: "local",
      node_pools: [{ id: "gpu", min_nodes: 2, shape: { cpus: 4, gpu_type: null }, hosts: [], topology: { zone: null } }],
      partitions: [{ id: "main", node_pools: ["gpu"], max_time: "7-00:00:00", up: true }],
      storage: [],
      health: { policy: "default", dry_run: false },
    };
    expect(specText(spec)).toBe(`display_name: "my lab"
provider: local
node_pools:
  - id: gpu
    min_nodes: 2
    shape: {cpus: 4}
partitions:
  - id: main
    node_pools: [gpu]
    max_time: "7-00:00:00"
    up: true
health: {policy: default, dry_run: false}
`);
  });

  it("quotes whatever YAML would not read as text", () => {
    const tricky = ["true", "Null", "~", "12", "1.5", "a: b", "- x", "#c", "", "é", 'say "so"', "a\nb"];
    expect(specText({ tricky })).toBe(`tricky:\n${tricky.map((word) => `  - ${JSON.stringify(word)}\n`).join("")}`);
  });
});
