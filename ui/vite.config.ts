import { defineConfig } from "vitest/config";

// Assets are named relative to the page, whose <base href> the server sets: the build works under any root path.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/stepward/server/static",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "uplot", test: /node_modules\/uplot/ }] } } },
  },
  server: {
    proxy: { "/api": { target: "http://127.0.0.1:7070" } },
  },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
});
