/** The jobs of a node: those with processes on it now, and those that it had. */

import { clusterPath, get, type Job, type JobPage, type Node } from "../api";
import { Chip } from "../parts/chip";
import { PlainTable } from "../parts/plain-table";
import { lasting } from "../state/jobs";
import { now } from "../state/now";
import { href } from "../state/place";
import { usePolled } from "../state/polled";
import { runPlace } from "../state/url";
import { ago, LIVE, moment } from "../words";

const POLL_MS = 5000;
const SHOWN = 50;

export function NodeJobs({ node, cluster }: { node: Node; cluster: string }) {
  const query = { node: node.name, since: "7d", limit: SHOWN };
  const { value: page, problem } = usePolled(`${cluster} ${node.name}`, POLL_MS, (signal) => get<JobPage>(clusterPath(cluster, "jobs"), { query, signal }));
  return (
    <section>
      <h2>Jobs</h2>
      {page?.items.length ? (
        <JobList page={page} node={node} cluster={cluster} />
      ) : (
        <p class="soft">{problem ? problem.message : page ? "It had no job in the last 7 days." : "Asking Slurm…"}</p>
      )}
      {page && page.total > SHOWN && <p class="small faint">The newest {SHOWN} of {page.total}.</p>}
      {page?.history_missing && <p class="small faint">Older ones are missing: {page.history_missing}</p>}
    </section>
  );
}

function JobList({ page, node, cluster }: { page: JobPage; node: Node; cluster: string }) {
  return (
    <PlainTable label="Jobs of the node" heads={["Job", "Name", "State", "User", "Time", "On this node", "Run"]}>
      {page.items.map((job) => (
        <Row key={job.id} {...{ job, node, cluster }} />
      ))}
    </PlainTable>
  );
}

function Row({ job, node, cluster }: { job: Job; node: Node; cluster: string }) {
  const here = node.jobs.find((one) => one.name === job.id);
  return (
    <tr data-job={job.id}>
      <th scope="row">
        <a href={href({ view: "job", cluster, job: job.id })}>{job.id}</a>
      </th>
      <td>
        <bdi>{job.name}</bdi>
      </td>
      <td>
        <Chip state={job.state} title={job.slurm_state} />
      </td>
      <td>{job.user}</td>
      <td class="number" title={`started ${moment(job.started_at)}`}>
        {lasting(job, now.value)}
        {job.ended_at && <span class="faint">, {ago(job.ended_at, now.value)}</span>}
      </td>
      <td class="number">{here ? [here.processes === 1 ? "1 process" : `${here.processes} processes`, here.devices && `devices ${here.devices}`].filter(Boolean).join(", ") : LIVE.has(job.state) ? "no processes seen" : ""}</td>
      <td>{job.run && <a href={href(runPlace(job.run))}>run</a>}</td>
    </tr>
  );
}
