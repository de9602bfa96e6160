"""Rows of the catalog as frames make them: new ones, and the columns that a frame fills, each within its bounds."""

from typing import Any

import msgspec

from stepward.ingest.protocols import CommittedFrame
from stepward.model.frames import Config, Event, Events, Logs, Source, Status
from stepward.model.states import Exit, State
from stepward.model.words import RunKind, SourceKind
from stepward.store.catalog.bounds import MAX_LONG_TEXT, int32, int64, maybe_int64, text, tree

Row = dict[str, Any]
CLOCK_SET_US = 60_000_000
"""A source whose offset grew by more has had its clock set; less is the network."""
VOUCHED_CLOCK_OFF_US = 10_000_000
"""A watcher says little to each run, so that no later frame corrects an offset that was a busy server's delay; and the clocks of
a cluster agree, for munge takes nobody's word whose clock does not."""
CLOCK_OFF_US = 1_000_000
"""Offsets below are the network, not the clock."""
_KEPT_TAIL = 50


def new_run(frame: CommittedFrame) -> Row:
    """The row of a run with its first frame."""
    return {
        "id": frame.run,
        "project": frame.project,
        "name": frame.run,
        "kind": RunKind.TRAINING.value,
        "key": None,
        "state": State.STARTING.value,
        "state_reason": None,
        "live": True,
        "notes": "",
        "name_edited": False,
        "tags_edited": False,
        "created_at": frame.received_at,
        "started_at": frame.received_at,
        "ended_at": None,
        "last_seen_at": None,
        "step": None,
        "changes": 0,
        "observed": None,
        "usual_step_s": None,
    }


def new_attempt(frame: CommittedFrame) -> Row:
    """The row of an attempt with its first frame; its start is a guess until a configuration says it."""
    started_at = heard_at(frame) or frame.received_at
    return {
        "run": frame.run,
        "key": text(frame.source.attempt),
        "number": 0,
        "state": State.STARTING.value,
        "exit_code": None,
        "signal": None,
        "reason": None,
        "world": None,
        "started_at": started_at,
        "announced_start": False,
        "own_started_at": started_at,
        "watched_only": frame.source.kind is SourceKind.WATCHER,
        "ended_at": None,
        "first_step": None,
        "last_step": None,
    }


def heard_at(frame: CommittedFrame) -> int | None:
    """When the writer was last alive for sure, on the server's clock: the age of what it says is taken off.

    A spool that is sent days later is as old as its newest content, whenever its frames come, unless its shipper sees the
    writer alive: a heartbeat may wait behind much output. None where a frame holds nothing that has a time.
    """
    if frame.alive:
        return frame.received_at
    said = [] if frame.last_time is None else [frame.last_time]
    for _, payload in frame.payloads:
        if isinstance(payload, Status | Exit):
            said.append(payload.at)
        elif isinstance(payload, Config) and payload.started_at is not None:
            said.append(payload.started_at)
        elif isinstance(payload, Events):
            said += [event.ended_at or event.started_at for event in payload.events]
        elif isinstance(payload, Logs):
            said += [chunk.marks[-1][1] for chunk in payload.chunks if chunk.marks]
    if not said:
        return None
    return max(0, frame.received_at - max(0, frame.sent_at - max(said)))


def offset_of(frame: CommittedFrame) -> int:
    """How far the clock of a frame's source is behind the server's, as this frame tells; µs, its way included."""
    offset = int64(frame.received_at - frame.sent_at)
    return 0 if frame.source.vouched_by and abs(offset) < VOUCHED_CLOCK_OFF_US else offset


def truer_offset(known: int, offset: int) -> int:
    """Of what is known of how far a source's clock is behind the server's, and what a further frame says, the truer one."""
    return offset if offset < known or offset > known + CLOCK_SET_US else known


def corrected(sent: int, offset_us: int) -> int:
    """A sender's instant on the server's clock."""
    return int64(sent + offset_us if abs(offset_us) >= CLOCK_OFF_US else sent)


def new_source(key: tuple[str, str, str], offset: int) -> Row:
    """The row of a source (run, writer, attempt) that is heard for the first time; ``who_writes`` has the rest."""
    run, writer, attempt = key
    return {
        "run": run,
        "writer": writer,
        "attempt": attempt,
        "heard_at": None,
        "last_seen": 0,
        "offset_us": offset,
        "step": None,
        "phase": None,
        "pending": 0,
        "dropped": 0,
        "gaps": 0,
        "next_attempt": None,
        "status_at": None,
        "alive": [],
        "stopped": [],
        "exits": None,
        "vouched_by": None,
    }


def who_writes(source: Source) -> Row:
    """The columns that each frame says anew: a rank may learn its number late."""
    return {
        "kind": source.kind.value,
        "rank": None if source.rank is None else int32(source.rank),
        "role": text(source.role),
        "node": text(source.node),
        "pid": max(0, int64(source.pid)),
        "vouched_by": text(source.vouched_by, 64) or None,
    }


def event_row(event: Event, source: Row) -> Row:
    """The row of an event, its times on the server's clock."""
    offset = source["offset_us"]
    return {
        "run": source["run"],
        "id": text(event.id),
        "type": text(event.type),
        "attempt": source["attempt"],
        "rank": source["rank"] if event.rank is None else int32(event.rank),
        "step": maybe_int64(event.step),
        "started_at": corrected(event.started_at, offset),
        "ended_at": None if event.ended_at is None else corrected(event.ended_at, offset),
        "title": text(event.title),
        "data": tree(event.data),
    }


def bounded_exit(exit: Exit) -> Exit:
    """An exit that fits: its last lines, its traceback and its texts at most so long."""
    return msgspec.structs.replace(
        exit,
        at=int64(exit.at),
        rank=None if exit.rank is None else int32(exit.rank),
        exit_code=None if exit.exit_code is None else int32(exit.exit_code),
        signal=None if exit.signal is None else text(exit.signal, 32),
        exception=None if exit.exception is None else text(exit.exception),
        traceback=None if exit.traceback is None else text(exit.traceback, MAX_LONG_TEXT),
        reason=None if exit.reason is None else text(exit.reason),
        tail=[text(line) for line in exit.tail[-_KEPT_TAIL:]],
    )
