"""Which node this is, and under which identity its agent writes. Decided once, before anything starts."""

import os
from collections.abc import Mapping, Sequence

import msgspec

from stepward import settings as configured
from stepward.errors import UsageError
from stepward.model.frames import Source
from stepward.model.identity import LOCAL_CLUSTER, derived_run_id, node_key, ulid
from stepward.model.words import NODES_PROJECT, SourceKind
from stepward.orchestrators.protocol import ProcFacts
from stepward.settings import Settings
from stepward.spool import roots
from stepward.spool.writers import WriterMeta

INTERVAL_S = 10.0
LEAST_INTERVAL_S, LONGEST_INTERVAL_S = 1.0, 300.0
_CONF = "/etc/slurm/slurm.conf"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for.

    Attributes:
        cluster: name of the cluster; that of Slurm's configuration where None, ``local`` where there is none.
        node: name of the node; the host's where None.
        interval_s: seconds between two samples.
        scrape: addresses of Prometheus exporters.
    """

    cluster: str | None = None
    node: str | None = None
    interval_s: float = INTERVAL_S
    scrape: Sequence[str] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A node with its identity.

    Attributes:
        slurm: whether the node belongs to a Slurm cluster.
        root: the spool that is really used.
    """

    options: Options
    settings: Settings
    cluster: str
    node: str
    boot: str
    slurm: bool
    root: str

    @property
    def key(self) -> str:
        """Key of the node's run."""
        return node_key(self.cluster, self.node)

    @property
    def run(self) -> str:
        """Id of the node's run."""
        return derived_run_id(NODES_PROJECT, self.key)

    def writer(self, created_at: int) -> WriterMeta:
        """A new writer of this agent."""
        source = Source(kind=SourceKind.AGENT, attempt=f"boot:{self.boot}", node=self.node)
        return WriterMeta(
            project=NODES_PROJECT, run=self.run, writer=ulid(), source=source, created_at=created_at, key=self.key
        )


def make_plan(options: Options, environ: Mapping[str, str], facts: ProcFacts) -> Plan:
    """The plan for this process.

    Raises:
        UsageError: ``bad_interval``, ``bad_scrape_url``, ``bad_node_name``, and what the settings raise.
    """
    if not LEAST_INTERVAL_S <= options.interval_s <= LONGEST_INTERVAL_S:
        raise UsageError(
            f"an interval of {options.interval_s:g} s",
            code="bad_interval",
            hint=f"{LEAST_INTERVAL_S:g} to {LONGEST_INTERVAL_S:g} s",
        )
    for url in options.scrape:
        if not configured.is_http_url(url):
            raise UsageError(
                f"{url[:200]!r} is no address to scrape", code="bad_scrape_url", hint="http://host:9400/metrics"
            )
    conf = environ.get("SLURM_CONF") or _CONF
    named = _cluster_name(conf)
    cluster, node = options.cluster or named or LOCAL_CLUSTER, options.node or facts.host.partition(".")[0]
    for word, name in (("cluster", cluster), ("node", node)):
        if not name.strip() or len(name) > 200 or ":" in name or not name.isprintable():
            raise UsageError(f"{name[:80]!r} can't name a {word}", code="bad_node_name", hint="1 to 200 characters")
    settings = configured.load()
    return Plan(
        options=options,
        settings=settings,
        cluster=cluster,
        node=node,
        boot=facts.boot or "unknown",
        slurm=named is not None,
        root=roots.resolve(settings.spool) or settings.spool,
    )


def _cluster_name(conf: str) -> str | None:
    """``ClusterName`` of a slurm.conf; None where there is none that can be read."""
    try:
        with open(conf, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in lines:
        key, equals, value = line.partition("#")[0].partition("=")
        if equals and key.strip().lower() == "clustername":
            return value.strip() or None
    return None


def lock_path(plan: Plan) -> str:
    """Where the agent of the node holds its lock: a hidden name, which nobody takes for a run of the spool."""
    return os.path.join(plan.root, f".agent-{plan.run}.json")
