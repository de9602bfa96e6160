"""All clusters of a server: making, changing and ending them, and restarting what died in them."""

import contextlib
import logging
import secrets
import shutil
import time
from collections.abc import Callable, Sequence

from stepward.clusters import changes as between
from stepward.clusters.companions import ServerOf
from stepward.clusters.naming import cluster_name, default_name
from stepward.clusters.operations import Operations
from stepward.clusters.patience import Patience
from stepward.clusters.providers.local import LocalProvider
from stepward.clusters.providers.local.ports import all_of
from stepward.clusters.providers.protocol import Provider, Step
from stepward.clusters.record import ClusterRecord, Records, busy
from stepward.clusters.spec import ClusterSpec
from stepward.errors import Conflict, NotFound, StepwardError, UsageError
from stepward.model.clusters import ClusterPlan, Operation, OperationStep
from stepward.model.identity import CROCKFORD
from stepward.model.resources import instant

HOLD_S, HOLD_POLL_S = 10.0, 0.05
_log = logging.getLogger("stepward.clusters")
_MEANWHILE = ("cluster_busy", "no_such_cluster")
"""What happens to whoever looks while an operation begins or ends."""


class Fleet:
    """The clusters below a folder.

    Args:
        data: the server's data folder, or any folder for a library's use.
        clock: µs since the epoch.
        server: where the companions of a cluster report; None for nowhere, as in a library without a server.
        ended: is told the ``slurm_name`` of a cluster that is gone.
    """

    def __init__(
        self,
        data: str,
        clock: Callable[[], int],
        *,
        server: ServerOf = lambda _name, _remembered: None,
        ended: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.records = Records(f"{data}/clusters", f"{data}/operations")
        self.operations = Operations(self.records, clock)
        self._clock = clock
        self._server = server
        self._ended = ended
        self._patience = Patience(time.monotonic)
        self._settled = False

    # ── changing ──

    def create(self, spec: ClusterSpec, *, name: str | None = None, actor: str = "") -> Operation:
        """Begin to make a cluster, or go on with one that was half made.

        Raises:
            UsageError: ``bad_cluster_name``, ``provider_missing``, ``cluster_needs``, ``bad_cluster_folder``.
            Conflict: ``cluster_exists``, ``cluster_busy``.
        """
        name = cluster_name(name or default_name(spec.display_name))
        with contextlib.ExitStack() as held:
            record = self._to_create(name, spec, held)
            steps = self.provider(record).make()
            return self.operations.begin(record, "create", steps, held.pop_all(), actor=actor, done=self._made)

    def update(self, name: str, spec: ClusterSpec, *, actor: str = "") -> Operation:
        """Begin to make a cluster what ``spec`` says.

        Raises:
            NotFound: ``no_such_cluster``.
            UsageError: ``bad_cluster_spec`` for what cannot be changed; as ``create``.
            Conflict: ``cluster_busy``, ``cluster_not_ready``, ``nodes_busy``.
        """
        self.records.get(name)
        with contextlib.ExitStack() as held:
            self._hold(name, held)
            record = self.records.get(name)
            self._check_update(record, spec)
            record.spec = spec
            steps = self.provider(record).make()
            return self.operations.begin(record, "update", steps, held.pop_all(), actor=actor, done=self._made)

    def delete(self, name: str, *, actor: str = "") -> Operation:
        """Begin to end a cluster, in whatever state it is. Raises as ``Records.get`` and ``Records.locked``."""
        self.records.get(name)
        with contextlib.ExitStack() as held:
            self._hold(name, held)
            record = self.records.get(name)
            # From now on nothing of it is started again, whatever becomes of the operation.
            record.applied = None
            steps = self._ending(record)
            return self.operations.begin(
                record, "delete", steps, held.pop_all(), actor=actor, done=lambda _record: None
            )

    def plan(self, name: str | None, spec: ClusterSpec) -> ClusterPlan:
        """What ``create``, or ``update`` where the cluster exists, would do; raises what they would."""
        name = cluster_name(name or default_name(spec.display_name))
        record = self._present(name)
        if record is None or record.applied is None:
            record = ClusterRecord(name=name, slurm_name="", spec=spec)
            self.provider(record).check(spec)
            added = [f"add pool {pool.id} ({pool.min_nodes} to {pool.max_nodes} nodes)" for pool in spec.node_pools]
            return ClusterPlan(cluster=name, kind="create", changes=added, steps=_shown(self.provider(record).make()))
        self._check_update(record, spec)
        lines = between.changes(record.applied or record.spec, spec)
        record.spec = spec
        return ClusterPlan(cluster=name, kind="update", changes=lines, steps=_shown(self.provider(record).make()))

    def plan_delete(self, name: str) -> ClusterPlan:
        """What ``delete`` would do."""
        record = self.records.get(name)
        return ClusterPlan(cluster=name, kind="delete", steps=_shown(self._ending(record)))

    def resume(self) -> list[Operation]:
        """Go on with the operations in which the last server was killed."""
        found = []
        if not self._settled:
            self._settle()
            self._settled = True
        for name in self.records.names():
            try:
                operation = self._resume(name)
            except StepwardError as error:
                if error.code not in _MEANWHILE:
                    _log.warning("cluster %s: %s", name, error)
                continue
            if operation is not None:
                found.append(operation)
        return found

    # ── while they live ──

    def tend(self) -> None:
        """Go on with what was interrupted, and start again what died; called every few seconds."""
        self.resume()
        self.supervise()

    def supervise(self) -> None:
        """Start again what died unasked, in clusters that were ready once and that no operation changes."""
        for name in self.records.names():
            try:
                with self.records.locked(name):
                    record = self.records.get(name)
                    lives = record.applied is not None and record.state in ("ready", "failed")
                    again = self._restarted(record) if lives else []
            except StepwardError as error:
                if error.code not in _MEANWHILE:
                    _log.warning("cluster %s: %s", name, error)
                continue
            except OSError as error:
                # Its folder is full, or somebody was in it: no reason to leave the others alone.
                _log.warning("cluster %s: %s", name, error)
                continue
            if again:
                _log.warning("cluster %s: started again %s", name, ", ".join(again))

    def provider(self, record: ClusterRecord) -> Provider:
        """The provider of a cluster.

        Raises:
            UsageError: ``provider_missing``.
        """
        if record.spec.provider != "local":
            raise UsageError(
                f"provider {record.spec.provider} is not part of this version",
                code="provider_missing",
                hint="provider: local makes a cluster on the server's own host",
            )
        return LocalProvider(
            record,
            self.records.folder(record.name),
            self.records.put,
            self._server,
            lambda: self._taken_ports(record.name),
        )

    def of(self, name: str) -> Provider:
        """The provider of a cluster by name. Raises as ``Records.get``."""
        return self.provider(self.records.get(name))

    # ── parts of these ──

    def _restarted(self, record: ClusterRecord) -> list[str]:
        return self.provider(record).supervise(lambda role: self._patience.may(f"{record.slurm_name}:{role}"))

    def _to_create(self, name: str, spec: ClusterSpec, held: contextlib.ExitStack) -> ClusterRecord:
        present = self._present(name)
        if present is not None and present.applied is not None:
            raise Conflict(
                f"there is a cluster {name!r} already",
                code="cluster_exists",
                hint="`stepward cluster update -f` changes it; another name makes another cluster",
            )
        record = present or ClusterRecord(name=name, slurm_name=_slurm_name(name), spec=spec)
        record.spec = spec
        self.provider(record).check(spec)
        self._hold(name, held, make=True)
        now = self._present(name)
        if now is not None and (now.applied is not None or now.slurm_name != record.slurm_name):
            raise busy(name)  # somebody made it meanwhile
        record.created_at = record.created_at or self._clock()
        return record

    def _hold(self, name: str, held: contextlib.ExitStack, *, make: bool = False) -> None:
        """Hold a cluster for an operation. Who only looks after it lets go in a moment, and is waited for."""
        until = time.monotonic() + HOLD_S
        while True:
            try:
                held.enter_context(self.records.locked(name, make=make))
                return
            except Conflict:
                present = self._present(name)
                if time.monotonic() > until or (present and self.operations.runs(present.operation)):
                    raise
            time.sleep(HOLD_POLL_S)

    def _check_update(self, record: ClusterRecord, spec: ClusterSpec) -> None:
        present = record.applied or record.spec
        between.refuse_impossible(present, spec)
        provider = self.provider(record)
        provider.check(spec)
        if record.applied is None or record.state == "deleting":
            raise Conflict(
                f"cluster {record.name!r} was never ready",
                code="cluster_not_ready",
                hint="`stepward cluster create` goes on with it, `delete` ends it",
            )
        busy = provider.busy(between.removed_nodes(present, spec))
        if busy:
            raise Conflict(
                "jobs run on nodes that would be removed: "
                + "; ".join(f"{node}: {', '.join(jobs)}" for node, jobs in busy.items()),
                code="nodes_busy",
                hint="drain these nodes and wait, or cancel the jobs",
                nodes=busy,
            )

    def _settle(self) -> None:
        """End the operations that no cluster knows of: a server was killed at their very beginning, or very end."""
        for operation in self.records.operations():
            if operation.state != "running" or self.operations.runs(operation.id):
                continue
            record = self._present(operation.cluster)
            if record is not None and record.operation == operation.id:
                continue
            ended = record is None and operation.kind == "delete"
            if ended:
                shutil.rmtree(self.records.folder(operation.cluster), ignore_errors=True)
            operation.state = "done" if ended else "interrupted"
            operation.ended_at = instant(self._clock())
            self.records.put_operation(operation)

    def _resume(self, name: str) -> Operation | None:
        record = self.records.get(name)
        last = self.records.operation(record.operation) if record.operation else None
        if last is None or last.state != "running" or self.operations.runs(last.id):
            return None
        with contextlib.ExitStack() as held:
            held.enter_context(self.records.locked(name))
            provider = self.provider(record)
            steps, done = (
                (self._ending(record), lambda _record: None) if last.kind == "delete" else (provider.make(), self._made)
            )
            return self.operations.begin(
                record, last.kind, steps, held.pop_all(), actor=last.actor, id=last.id, done=done
            )

    def _made(self, record: ClusterRecord) -> None:
        record.state, record.applied = "ready", record.spec
        self.records.put(record)

    def _ending(self, record: ClusterRecord) -> list[Step]:
        """The steps of a deletion; its tokens are revoked when nothing reports any more and before it is forgotten."""
        *steps, last = self.provider(record).unmake()
        return [*steps, Step("tokens", "tokens of its agents", lambda: self._ended(record.slurm_name)), last]

    def _present(self, name: str) -> ClusterRecord | None:
        try:
            return self.records.get(name)
        except NotFound:
            return None

    def _taken_ports(self, name: str) -> set[int]:
        others = [self._present(other) for other in self.records.names() if other != name]
        return {port for other in others if other and other.ports for port in all_of(other.ports)}


def _slurm_name(name: str) -> str:
    """A name that no other cluster has or will have: accounting and run keys hold it."""
    return f"{name.replace('-', '_')}_{''.join(secrets.choice(CROCKFORD) for _ in range(6))}"


def _shown(steps: Sequence[Step]) -> list[OperationStep]:
    return [OperationStep(key=step.key, title=step.title) for step in steps]
