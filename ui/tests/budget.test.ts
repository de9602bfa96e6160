// Reads the build, so it needs one: `npm run build` comes before `npm test`.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";

const STATIC = join(import.meta.dirname, "../../src/stepward/server/static");
const size = (name: string): number => gzipSync(readFileSync(join(STATIC, "assets", name))).length / 1000;

it("the page loads at most 60 kB of script first, and at most 30 kB a part later (gzip)", () => {
  const page = readFileSync(join(STATIC, "index.html"), "utf8");
  const first = [...page.matchAll(/(?:src|href)="\.\/assets\/([^"]+\.js)"/g)].map((match) => match[1]!);
  expect(first.length).toBeGreaterThan(0);
  expect(first.reduce((sum, name) => sum + size(name), 0)).toBeLessThanOrEqual(60);
  for (const name of readdirSync(join(STATIC, "assets")).filter((name) => name.endsWith(".js") && !first.includes(name))) {
    expect(size(name), name).toBeLessThanOrEqual(30);
  }
});

it("the page names nothing outside of itself, and no script stands in it", () => {
  const page = readFileSync(join(STATIC, "index.html"), "utf8");
  expect(page).not.toMatch(/https?:\/\/|(?:src|href)="\/\//);
  expect(page).not.toMatch(/<script(?![^>]*\bsrc=)/);
  expect(page).not.toMatch(/\sstyle=/);
});
