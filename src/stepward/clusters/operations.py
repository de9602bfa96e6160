"""Operations on clusters: plan first, one step after the other, the state on disk after each; one at a time a cluster.

A step may be done again. So whoever finds an operation half done does all of its steps again, and those that are true
already take no time: that is how a failed operation is gone on with, and one whose server was killed in it.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence

from stepward.clusters.providers.protocol import Step
from stepward.clusters.record import ClusterRecord, Records
from stepward.errors import StepwardError
from stepward.model.clusters import Operation, OperationError, OperationKind, OperationStep
from stepward.model.identity import ulid
from stepward.model.resources import instant

_log = logging.getLogger("stepward.clusters")


class Operations:
    """Runs operations, each in a thread that holds its cluster.

    Args:
        clock: µs since the epoch.
    """

    def __init__(self, records: Records, clock: Callable[[], int]) -> None:
        self._records = records
        self._clock = clock
        self._threads: dict[str, threading.Thread] = {}

    def begin(
        self,
        record: ClusterRecord,
        kind: OperationKind,
        steps: Sequence[Step],
        held: contextlib.ExitStack,
        *,
        actor: str,
        id: str | None = None,
        done: Callable[[ClusterRecord], None],
    ) -> Operation:
        """Remember an operation and start it; returns it as it is at its beginning.

        Args:
            held: holds the cluster's lock; let go when the operation has ended, or cannot begin.
            id: of an operation that was interrupted and goes on.
            done: what the success of the operation means for the record; called while the cluster is held.
        """
        operation = Operation(
            id=id or f"op_{ulid()}",
            cluster=record.name,
            kind=kind,
            steps=[OperationStep(key=step.key, title=step.title) for step in steps],
            actor=actor,
            started_at=instant(self._clock()),
        )
        record.operation = operation.id
        record.state = "creating" if kind == "create" else "updating" if kind == "update" else "deleting"
        try:
            self._records.put_operation(operation)
            self._records.put(record)
        except BaseException:
            held.close()
            raise
        thread = threading.Thread(
            target=self._run, args=(record, operation, steps, held, done), name=operation.id, daemon=True
        )
        self._threads[operation.id] = thread
        thread.start()
        return operation

    def wait(self, id: str, timeout_s: float | None = None) -> Operation:
        """An operation when it has ended, or after ``timeout_s``. Raises as ``Records.operation``."""
        thread = self._threads.get(id)
        if thread is not None:
            thread.join(timeout_s)
        return self._records.operation(id)

    def runs(self, id: str | None) -> bool:
        """Whether an operation of this process goes on."""
        thread = self._threads.get(id or "")
        return thread is not None and thread.is_alive()

    def _run(
        self,
        record: ClusterRecord,
        operation: Operation,
        steps: Sequence[Step],
        held: contextlib.ExitStack,
        done: Callable[[ClusterRecord], None],
    ) -> None:
        with held:
            try:
                for step, shown in zip(steps, operation.steps, strict=True):
                    self._step(operation, step, shown)
                operation.state = "done"
                done(record)
            except StepwardError as error:
                operation.error = OperationError(code=error.code, detail=error.message, hint=error.hint)
                self._fail(record, operation)
            except Exception as error:
                # Whatever it is, the operation has ended and says so.
                _log.exception("operation %s on cluster %s failed", operation.id, record.name)
                operation.error = OperationError(code="internal_error", detail=f"{type(error).__name__}: {error}")
                self._fail(record, operation)
            operation.ended_at = instant(self._clock())
            with contextlib.suppress(StepwardError):
                self._records.put_operation(operation)
        self._threads.pop(operation.id, None)

    def _step(self, operation: Operation, step: Step, shown: OperationStep) -> None:
        shown.state = "running"
        self._records.put_operation(operation)
        begun = time.monotonic()
        try:
            step.work()
        except BaseException:
            shown.state = "failed"
            raise
        else:
            shown.state = "done"
        finally:
            shown.seconds = round(time.monotonic() - begun, 3)
            self._records.put_operation(operation)

    def _fail(self, record: ClusterRecord, operation: Operation) -> None:
        operation.state = "failed"
        record.state = "failed"
        with contextlib.suppress(StepwardError):
            self._records.put(record)
