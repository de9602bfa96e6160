/** Where an axis has its ticks, and how values map to it. Pure, and right up to the limits of a double and of int64. */

export type Range = readonly [number, number];

/** Place of `value` in `range`, 0 to 1. Halves keep the difference of two huge numbers finite. */
export function fraction(value: number, [low, high]: Range): number {
  return (value / 2 - low / 2) / (high / 2 - low / 2);
}

/** The value at a place of `range`. */
export function valueAt(fraction: number, [low, high]: Range): number {
  return low * (1 - fraction) + high * fraction;
}

/** A range with room around it; never empty, never infinite. */
export function padded([low, high]: Range, share = 0.06): Range {
  const span = high / 2 - low / 2;
  // Less than a double can tell apart is rounding, not a range.
  const real = span > Math.max(Math.abs(low), Math.abs(high)) * 1e-12;
  const room = real ? span * 2 * share : low === 0 ? 1 : Math.max(Math.abs(low) * 0.1, 1e-300);
  const limit = Number.MAX_VALUE;
  return [Math.max(-limit, low - room), Math.min(limit, high + room)];
}

/** Round numbers (1, 2, 5 times a power of ten) within `range`, about `target` of them, at least `least` apart. */
export function linearTicks([low, high]: Range, target: number, least = 0): number[] {
  const step = Math.max(least, niceStep((high / 2 - low / 2) / Math.max(1, target)));
  if (!(step > 0) || !Number.isFinite(step)) return [low <= 0 && high >= 0 ? 0 : low];
  const ticks: number[] = [];
  for (let i = Math.ceil(low / step); ticks.length <= target * 3; i++) {
    const tick = Number((i * step).toPrecision(15));
    if (!(tick <= high)) break;
    ticks.push(tick);
  }
  return ticks;
}

function niceStep(half: number): number {
  const power = 10 ** Math.floor(Math.log10(half));
  // `half` is half of the wanted step: its mantissa, 1 to 10, goes to half of the nearest of 2, 5, 10 and 20.
  const mantissa = half / power;
  return power * (mantissa <= 1.5 ? 2 : mantissa <= 3.5 ? 5 : mantissa <= 7 ? 10 : 20);
}

/** Powers of ten within a positive range; 2 and 5 between them where there is room. */
export function logTicks([low, high]: Range, target: number): number[] {
  const first = Math.floor(Math.log10(low));
  const decades = Math.ceil(Math.log10(high)) - first;
  const every = Math.max(1, Math.ceil(decades / target));
  const factors = decades * 3 <= target * 1.5 ? [1, 2, 5] : [1];
  const ticks: number[] = [];
  for (let decade = first; decade <= first + decades; decade += every) {
    for (const factor of factors) {
      const tick = Number(`${factor}e${decade}`);
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  return ticks.length ? ticks : [low];
}

const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** Round durations within a range of seconds. */
export function durationTicks(range: Range, target: number): number[] {
  const wanted = (range[1] - range[0]) / Math.max(1, target);
  const step = SECONDS.find((seconds) => seconds >= wanted);
  if (wanted < 1 || step === undefined) return linearTicks(range, target);
  const ticks: number[] = [];
  for (let tick = Math.ceil(range[0] / step) * step; tick <= range[1]; tick += step) ticks.push(tick);
  return ticks;
}
