/** Names of nodes, each a link to the node's page; of many the first. */

import { href } from "../state/place";
import { nodePlace } from "../state/url";

const SHOWN = 4;

export function NodeLinks({ cluster, nodes }: { cluster: string; nodes: readonly string[] }) {
  return (
    <>
      {nodes.slice(0, SHOWN).map((node, i) => (
        <span key={node}>
          {i > 0 && ", "}
          <a class="link" href={href(nodePlace(cluster, node))}>
            {node}
          </a>
        </span>
      ))}
      {nodes.length > SHOWN && ` +${nodes.length - SHOWN}`}
    </>
  );
}
