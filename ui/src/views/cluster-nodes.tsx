/** The nodes of a cluster as tiles: Slurm's word and reason, what the agent says, power. Only the rows in view are mounted. */

import { useRef } from "preact/hooks";
import type { ClusterNode } from "../api";
import { ToneChip } from "../parts/chip";
import { Glyph } from "../parts/glyph";
import { Empty } from "../parts/notice";
import { rowsInView, useView } from "../parts/windowed";
import { nodeTone, plainState } from "../state/clusters";
import { href } from "../state/place";
import { nodePlace } from "../state/url";

const TILE = 210;
const ROW = 84;
const GAP = 8;
const HEALTH = { ok: "healthy", bad: "a check is bad or the agent is lost", unknown: "health is not known" };

export function NodeGrid({ cluster, nodes }: { cluster: string; nodes: readonly ClusterNode[] }) {
  const box = useRef<HTMLUListElement>(null);
  const view = useView(box, true);
  const columns = Math.max(1, Math.floor(((view.width || 1000) + GAP) / (TILE + GAP)));
  const rows = Math.ceil(nodes.length / columns);
  const [first, end] = rowsInView(view, ROW + GAP, rows, 4);
  if (!nodes.length) return <Empty title="No nodes" />;
  return (
    <ul ref={box} class="node-grid" style={{ height: `${rows * (ROW + GAP)}px` }}>
      {nodes.slice(first * columns, end * columns).map((node, i) => {
        const [row, column] = [first + Math.floor(i / columns), i % columns];
        const place = { top: `${row * (ROW + GAP)}px`, left: `calc((100% + ${GAP}px) / ${columns} * ${column})`, width: `calc((100% + ${GAP}px) / ${columns} - ${GAP}px)`, height: `${ROW}px` };
        return <Tile key={node.name} {...{ cluster, node, place }} />;
      })}
    </ul>
  );
}

function Tile({ cluster, node, place }: { cluster: string; node: ClusterNode; place: Record<string, string> }) {
  const { name, state, reason, health, power, spare } = node;
  return (
    <li class="node-tile" data-node={name} data-health={health} style={place}>
      <a href={href(nodePlace(cluster, name))} title={reason ?? undefined}>
        <span class="row">
          <b class="clip grow">{name}</b>
          {health === "bad" && (
            <span class="bad-ink" title={HEALTH.bad}>
              <Glyph name="warn" />
              <span class="out-of-sight">{HEALTH.bad}</span>
            </span>
          )}
          <span class="faint small">{[spare && "spare", power === "off" && "off"].filter(Boolean).join(", ")}</span>
        </span>
        <span class="row">
          <ToneChip tone={nodeTone(state)} word={plainState(state)} />
          {health !== "bad" && power === "on" && <span class="small faint clip">{HEALTH[health]}</span>}
        </span>
        <span class="small soft clip">{reason ?? ""}</span>
      </a>
    </li>
  );
}
