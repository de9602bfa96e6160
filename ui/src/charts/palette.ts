/** Colours of canvases, light and dark. The hues stay apart for the colour-blind (after Okabe and Ito); dashes tell more. */

export interface Palette {
  hues: readonly string[];
  ink: string;
  faint: string;
  grid: string;
  surface: string;
  bad: string;
  restart: string;
  /** Of events. */
  severity: { info: string; warning: string; critical: string };
}

const LIGHT: Palette = {
  hues: ["#0b63b0", "#c8500a", "#0a8460", "#a33a86", "#94690a", "#2f93c9", "#d0527c", "#555e66"],
  ink: "#4a555d",
  faint: "#5f6b74",
  grid: "#e8ebed",
  surface: "#ffffff",
  bad: "#b3261e",
  restart: "#6b4fa3",
  severity: { info: "#1262b3", warning: "#c47a00", critical: "#b3261e" },
};

const DARK: Palette = {
  hues: ["#5aaef2", "#f08a4b", "#3fc79a", "#d98cc6", "#d9b24a", "#8fd3f5", "#f28fae", "#aab4bb"],
  ink: "#a9b4bb",
  faint: "#8b979f",
  grid: "#262d32",
  surface: "#171b1e",
  bad: "#ff8f86",
  restart: "#b9a0ec",
  severity: { info: "#6db3f8", warning: "#f0b45a", critical: "#ff8f86" },
};

export const palette = (dark: boolean): Palette => (dark ? DARK : LIGHT);
