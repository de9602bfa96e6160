/** How values are said to people: numbers, steps, durations, instants, sizes. Pure. */

import type { State, Value } from "./api";

export const LIVE: ReadonlySet<State> = new Set(["queued", "starting", "running", "hung", "waiting"]);

/** A metric's value in few characters: at most six significant digits. */
export function brief(value: Value | number): string {
  const number = Number(value);
  if (!Number.isFinite(number)) return Number.isNaN(number) ? "NaN" : number > 0 ? "+Inf" : "−Inf";
  if (Object.is(number, -0)) return "-0";
  const size = Math.abs(number);
  if (Number.isInteger(number) && size < 1e9) return group(String(number));
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return tidy(number.toExponential(3));
  return tidy(number.toPrecision(size >= 1e5 ? 8 : 5));
}

/** A float as it was logged: the shortest digits that give the same float back. */
export function exact(value: number | null): string {
  if (value === null) return "–";
  if (!Number.isFinite(value)) return brief(value);
  return Object.is(value, -0) ? "-0.0" : String(value);
}

/** A step, whole: int64 is said exactly. */
export const step = (value: number | bigint | null | undefined): string =>
  value === null || value === undefined ? "–" : group(typeof value === "bigint" ? String(value) : whole(value));

const whole = (value: number): string => (Number.isInteger(value) ? BigInt(value).toString() : String(value));
const group = (digits: string): string => digits.replace(/\B(?=(\d{3})+(?!\d))/g, " ");
const tidy = (digits: string): string => (digits.includes(".") ? digits.replace(/(\.\d*?)0+(?=e|$)/, "$1").replace(/\.(?=e|$)/, "") : digits).replace("e+", "e");

/** A duration with its two leading units: `3 d 4 h`, `12 min 5 s`, `0.42 s`. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds < 10) return `${tidy(seconds.toFixed(seconds < 1 ? 3 : 1))} s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return pair(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 86400) return pair(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return pair(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
}

const pair = (a: number, unit: string, b: number, smaller: string): string =>
  b ? `${group(String(a))} ${unit} ${b} ${smaller}` : `${group(String(a))} ${unit}`;

/** How long ago an instant was, in one unit. */
export function ago(instant: string | null, now: number): string {
  if (!instant) return "–";
  const seconds = (now - Date.parse(instant)) / 1000;
  if (seconds < -5) return `in ${duration(-seconds)}`;
  if (seconds < 5) return "now";
  const [amount, unit] =
    seconds < 60 ? [seconds, "s"] : seconds < 3600 ? [seconds / 60, "min"] : seconds < 86400 ? [seconds / 3600, "h"] : [seconds / 86400, "d"];
  return `${group(String(Math.floor(amount)))} ${unit} ago`;
}

/** Seconds from `start` to `end`, or to now where it has not ended. */
export function between(start: string | null, end: string | null, now: number): number {
  return start ? (end ? Date.parse(end) - Date.parse(start) : now - Date.parse(start)) / 1000 : NaN;
}

const two = (value: number): string => String(value).padStart(2, "0");

/** An instant in the reader's time zone: `2026-12-01 09:30:00`. */
export function moment(instant: string | number | null): string {
  if (instant === null) return "–";
  const at = new Date(instant);
  if (Number.isNaN(at.getTime())) return String(instant);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(at)}`;
}

/** Time of day with milliseconds, for log lines. */
export function clockMillis(instant: string | null): string {
  const at = new Date(instant ?? NaN);
  return Number.isNaN(at.getTime()) ? "" : `${clock(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

const clock = (at: Date): string => `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;

/** A number of bytes in binary units. */
export function bytes(count: number): string {
  const { unit, bytes } = binaryUnit(count);
  return `${tidy((count / bytes).toFixed(bytes === 1 ? 0 : 1))} ${unit}`;
}

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** The binary unit in which values up to `size` bytes are read, and its bytes. */
export function binaryUnit(size: number): { unit: string; bytes: number } {
  const power = Math.min(BINARY.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, size)) / 10)));
  return { unit: BINARY[power]!, bytes: 1024 ** power };
}

/** A value with its unit in few characters; bytes (`B`, `B/s`) in binary units. */
export function withUnit(value: number, unit: string): string {
  if (!Number.isFinite(value) || (unit !== "B" && unit !== "B/s")) return brief(value) + (unit && Number.isFinite(value) ? ` ${unit}` : "");
  const binary = binaryUnit(Math.abs(value));
  return `${tidy((value / binary.bytes).toPrecision(4))} ${binary.unit}${unit.slice(1)}`;
}

/** `1 line`, `2 lines`. */
export const count = (amount: number, noun: string): string => `${group(String(amount))} ${noun}${amount === 1 ? "" : "s"}`;

/** Keep head and tail of a long name, where its meaning usually is. */
export function middle(name: string, limit: number): string {
  const letters = [...name];
  if (letters.length <= limit) return name;
  const head = Math.ceil((limit - 1) / 2);
  return `${letters.slice(0, head).join("")}…${letters.slice(letters.length - (limit - 1 - head)).join("")}`;
}

/** The type of an event, as people say it. */
export const eventWord = (type: string): string => type.replaceAll("_", " ");
