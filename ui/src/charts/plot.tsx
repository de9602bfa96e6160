/**
 * A chart on the page: uPlot gives axes, cursor and selection, `draw.ts` the content. One crosshair is shared by all
 * charts that are mounted; it is a value on the x axis, so charts of different ranges agree.
 */

import { effect, signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Chart } from "../api";
import { dark } from "../state/theme";
import { axes, fromX, rangeX, type Scales, toX, toY } from "./axes";
import { paint } from "./draw";
import { Flags } from "./flags";
import { type Mark, widened } from "./marks";
import { type Palette, palette } from "./palette";
import type { Shape } from "./shape";
import type { Range } from "./ticks";
import { Tooltip } from "./tooltip";
import "./plot.css";

/** Where the pointer is on the shared x axis, and in which plot. */
export const crosshair = signal<{ x: number; plot: object } | null>(null);

interface PlotProps {
  chart: Chart;
  shape: Shape;
  log: boolean;
  zoom: Range | null;
  height: number;
  summary: string;
  marks: readonly Mark[];
  onZoom(range: Range | null): void;
}

interface Live {
  chart: Chart;
  shape: Shape;
  scales: Scales;
  palette: Palette;
  marks: readonly Mark[];
  whole: boolean;
  onZoom(range: Range | null): void;
  /** Where the inside of the axes is, in pixels of the page. */
  onFrame(left: number, width: number): void;
}

export interface Pointer {
  x: number;
  left: number;
  top: number;
  value: number;
}

export function Plot({ chart, shape, log, zoom, height, summary, marks, onZoom }: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [pointer, setPointer] = useState<Pointer | null>(null);
  const [frame, setFrame] = useState({ left: 0, width: 0 });
  const onFrame = (left: number, width: number) => setFrame((old) => (old.left === left && old.width === width ? old : { left, width }));
  const colours = palette(dark.value);
  const whole = zoom === null;
  const scales: Scales = { axis: chart.x, x: zoom ?? widened(shape.x, marks), y: shape.y, log, unit: chart.unit };
  const live = useRef<Live>(null!);
  live.current = { chart, shape, scales, palette: colours, marks, whole, onZoom, onFrame };

  const flagged = marks.length > 0;
  useEffect(() => {
    const element = box.current!;
    const made = mount(element, { height, room: flagged ? FLAG_ROOM : 8 }, () => live.current, setPointer);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    const stop = effect(() => follow(made, live.current.scales));
    return () => {
      stop();
      resized.disconnect();
      made.destroy();
    };
  }, [chart.x, colours, height, flagged]);

  const drawn = useMemo(() => ({}), [shape, log, zoom?.[0], zoom?.[1], marks]);
  useEffect(() => plot.current?.setData(carrier(scales)), [drawn]);

  return (
    <div class="plot">
      <div ref={box} role="img" aria-label={summary} style={{ height: `${height}px` }} />
      {flagged && <Flags marks={marks} range={scales.x} whole={whole} frame={frame} />}
      {pointer && <Tooltip chart={chart} shape={shape} marks={marks} pointer={pointer} log={log} palette={colours} width={box.current!.clientWidth} />}
    </div>
  );
}

/** uPlot wants data to scale its axes by; the lines themselves are ours. */
const carrier = (scales: Scales): uPlot.AlignedData => [rangeX(scales), [0, 1]];

/** Height of the lane above the plot in which flags stand. */
const FLAG_ROOM = 19;

function mount(box: HTMLDivElement, { height, room }: { height: number; room: number }, live: () => Live, hover: (pointer: Pointer | null) => void): uPlot {
  const options: uPlot.Options = {
    width: Math.max(60, box.clientWidth),
    height,
    padding: [room, 20, 0, 0],
    legend: { show: false },
    scales: { x: { time: live().scales.axis === "time", range: () => rangeX(live().scales) }, y: { range: () => [0, 1] } },
    axes: axes(() => live().scales, live().palette),
    series: [{}, { paths: () => null, points: { show: false } }],
    cursor: {
      y: false,
      points: { show: false },
      drag: { x: true, y: false, setScale: false },
      bind: { dblclick: () => () => (live().onZoom(null), null) },
    },
    hooks: {
      draw: [(u) => draw(u, live())],
      setSelect: [(u) => select(u, live())],
      setCursor: [(u) => point(u, live(), hover)],
    },
  };
  const made = new uPlot(options, carrier(live().scales), box);
  made.over.addEventListener("mouseleave", () => {
    if (crosshair.peek()?.plot === made) crosshair.value = null;
    hover(null);
  });
  return made;
}

function draw(u: uPlot, { chart, shape, scales, palette, marks, whole, onFrame }: Live): void {
  const { left, top, width, height } = u.bbox;
  const px = (x: number) => u.valToPos(toX(scales, x), "x", true);
  const py = (y: number) => u.valToPos(toY(scales, y), "y", true);
  paint({ ctx: u.ctx, left, top, width, height, dense: devicePixelRatio, px, py }, shape, { restarts: chart.restarts, marks, range: scales.x, whole }, palette);
  onFrame(u.over.offsetLeft, u.over.clientWidth);
}

function select(u: uPlot, { scales, onZoom }: Live): void {
  const { left, width } = u.select;
  if (width < 4) return;
  const at = (pixel: number) => fromX(scales, u.posToVal(pixel, "x"));
  const range: Range = [at(left), at(left + width)];
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  // Between two steps there is nothing to see: a zoom covers at least one whole step.
  onZoom(scales.axis === "step" ? [Math.floor(range[0]), Math.ceil(range[1])] : range);
}

/** The pointer moved over this plot, or `follow` moved the line of another one: only the first is news. */
function point(u: uPlot, { scales }: Live, hover: (pointer: Pointer | null) => void): void {
  const { left = -1, top = -1 } = u.cursor;
  if (left < 0 || !u.over.matches(":hover")) return;
  const x = fromX(scales, u.posToVal(left, "x"));
  crosshair.value = { x, plot: u };
  hover({ x, left: left + u.over.offsetLeft, top, value: u.posToVal(top, "y") });
}

function follow(u: uPlot, scales: Scales): void {
  const at = crosshair.value;
  if (at?.plot === u) return;
  const left = at ? u.valToPos(toX(scales, at.x), "x") : -10;
  u.setCursor({ left: left >= 0 && left <= u.over.clientWidth ? left : -10, top: 0 }, true);
}
