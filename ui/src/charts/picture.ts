/** A chart as a PNG: its canvas with title and legend, on the background of the page. */

import type { Palette } from "./palette";
import type { Shape } from "./shape";

const HEAD = 34;
const FOOT = 26;

export function picture(chart: HTMLCanvasElement, title: string, shape: Shape, palette: Palette): Promise<Blob> {
  const dense = devicePixelRatio;
  const legend = shape.strokes.length > 1 ? FOOT : 8;
  const canvas = document.createElement("canvas");
  canvas.width = chart.width;
  canvas.height = chart.height + (HEAD + legend) * dense;
  const ctx = canvas.getContext("2d")!;
  ctx.fillStyle = palette.surface;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.drawImage(chart, 0, HEAD * dense);
  ctx.fillStyle = palette.ink;
  ctx.textBaseline = "middle";
  ctx.font = `600 ${13 * dense}px system-ui, sans-serif`;
  ctx.fillText(title, 12 * dense, 18 * dense, canvas.width - 24 * dense);
  if (shape.strokes.length > 1) drawLegend(ctx, shape, palette, canvas.height - 14 * dense, dense);
  return new Promise((done, fail) => canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("no picture"))), "image/png"));
}

function drawLegend(ctx: CanvasRenderingContext2D, shape: Shape, palette: Palette, y: number, dense: number): void {
  ctx.font = `${11 * dense}px system-ui, sans-serif`;
  ctx.lineWidth = 2 * dense;
  let x = 12 * dense;
  for (const stroke of shape.strokes) {
    const width = ctx.measureText(stroke.label).width;
    if (x + width > ctx.canvas.width - 40 * dense) break;
    ctx.strokeStyle = palette.hues[stroke.hue]!;
    ctx.setLineDash(stroke.dashed ? [4 * dense, 3 * dense] : []);
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x + 14 * dense, y);
    ctx.stroke();
    ctx.fillText(stroke.label, x + 19 * dense, y);
    x += width + 34 * dense;
  }
}
