/** Where the device time of many runs went, by run, project, user, partition or node. */

import { type FleetGoodput, get } from "../api";
import { Empty, ProblemNote, Skeleton } from "../parts/notice";
import { named, percent, waterfall } from "../state/buckets";
import { grouped, type Row } from "../state/fleet";
import { useLoad } from "../state/load";
import { adjust, href } from "../state/place";
import { type FleetPlace, GROUPS, runPlace, SPAN_WORDS, SPANS } from "../state/url";
import { count, step } from "../words";
import { Bar } from "./goodput";

const TONES = { gained: "productive", waited: "waiting for resources", begun: "starting", held: "held up", lost: "lost", other: "other" };

export function FleetView({ place }: { place: FleetPlace }) {
  const { project, since, group } = place;
  const query = { project, since };
  const { value: found, problem, reload } = useLoad(`${project} ${since}`, (signal) => get<FleetGoodput>("goodput", { query, signal }));
  return (
    <main class="fleet">
      <div class="row wrap">
        <h1 class="grow">Goodput</h1>
        <label class="row small soft">
          By
          <select value={group} onChange={(event) => adjust({ group: event.currentTarget.value as FleetPlace["group"] })}>
            {GROUPS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label class="row small soft">
          Last
          <select value={since} onChange={(event) => adjust({ since: event.currentTarget.value as FleetPlace["since"] })}>
            {SPANS.map((span) => (
              <option key={span} value={span}>
                {SPAN_WORDS[span]}
              </option>
            ))}
          </select>
        </label>
      </div>
      {found ? <Content found={found} group={group} /> : problem ? <ProblemNote problem={problem} retry={reload} /> : <Skeleton lines={10} />}
    </main>
  );
}

function Content({ found, group }: { found: FleetGoodput; group: FleetPlace["group"] }) {
  if (!found.runs.length) return <Empty title="No run of that time has anything to account for" />;
  return (
    <>
      <header class="goodput-answer">
        <p class="goodput-share number">{percent(found.overall_device)}</p>
        <div>
          <h2>of {hours(found.device_s)} device hours moved runs forward</h2>
          <p class="soft number">
            {count(found.runs.length, "run")}
            {found.left_out > 0 && `, ${found.left_out} left out`}
            {found.pending > 0 && `, ${found.pending} still being computed`}
          </p>
        </div>
      </header>
      <p class="tones small soft">
        {Object.entries(TONES).map(([tone, words]) => (
          <span key={tone}>
            <i class={tone} />
            {words}
          </span>
        ))}
      </p>
      <table class="waterfall">
        <thead>
          <tr>
            <th scope="col">{group}</th>
            <th scope="col">Device time</th>
            <th scope="col" class="right">
              Hours
            </th>
            <th scope="col" class="right">
              Goodput
            </th>
            <th scope="col" class="meaning">
              Largest loss
            </th>
          </tr>
        </thead>
        <tbody>
          {grouped(found.runs, group).map((row) => (
            <FleetRow key={row.key} row={row} />
          ))}
        </tbody>
      </table>
      {group === "node" && <p class="faint small">A run's device time is spread evenly over its nodes.</p>}
    </>
  );
}

function FleetRow({ row }: { row: Row }) {
  const slices = waterfall(row.buckets);
  const largest = slices[1];
  return (
    <tr>
      <th scope="row" title={row.run?.name ?? row.key}>{row.run ? <a href={href(runPlace(row.run.run, { tab: "goodput" }))}>{row.run.name}</a> : row.key}</th>
      <td class="waterfall-lane stacked">
        {slices.map((slice) => (
          <Bar key={slice.bucket} slice={slice} />
        ))}
      </td>
      <td class="right number">{hours(row.device_s)}</td>
      <td class="right number">{percent(slices[0]?.share)}</td>
      <td class="soft meaning">{largest ? `${named(largest.bucket)} ${percent(largest.share)}` : "–"}</td>
    </tr>
  );
}

const hours = (seconds: number): string => (seconds < 36_000 ? Number((seconds / 3600).toPrecision(2)).toString() : step(Math.round(seconds / 3600)));
