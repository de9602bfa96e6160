import { describe, expect, it } from "vitest";
import { pressed, SHORTCUTS } from "../src/keys";

const key = (name: string, more: Partial<KeyboardEvent> = {}) => ({ key: name, ctrlKey: false, metaKey: false, altKey: false, isComposing: false, ...more }) as KeyboardEvent;

describe("keys", () => {
  it("are each in the table once for a place, and everywhere means everywhere", () => {
    const seen = new Set<string>();
    const global = new Set<string>(SHORTCUTS.filter(({ where }) => where === "Everywhere").map(({ keys }) => keys));
    for (const { keys, where } of SHORTCUTS) {
      expect(seen.has(keys)).toBe(false);
      if (where !== "Everywhere") expect(global.has(keys)).toBe(false);
      seen.add(keys);
    }
  });

  it("that begin a chord do nothing by themselves", () => {
    const first = SHORTCUTS.filter(({ keys }) => keys.includes(" ")).map(({ keys }) => keys.split(" ")[0]);
    expect(SHORTCUTS.filter(({ keys }) => first.includes(keys))).toEqual([]);
  });

  it("with a modifier stay the browser's", () => {
    expect(pressed(key("r"), "g")).toBe("g r");
    expect(pressed(key("?"), "")).toBe("?");
    expect(pressed(key("r", { ctrlKey: true }), "")).toBeNull();
    expect(pressed(key("r", { metaKey: true }), "g")).toBeNull();
  });
});
