"""The run of this process: ``init`` and the module-level calls of ``stepward``.

One run at a time: a second ``init`` (a notebook cell that runs again) finishes the first. A forked child has no run of
its own until it calls ``init``; what it logs through its parent's run is another writer of the same rank.
"""

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec

from stepward import settings as configured
from stepward.errors import UsageError
from stepward.model.frames import Config, Source
from stepward.model.identity import ulid
from stepward.model.words import RunKind, SourceKind
from stepward.orchestrators.identity import identify
from stepward.orchestrators.local.proc import read_facts
from stepward.orchestrators.protocol import Identity
from stepward.sdk import exits
from stepward.sdk.config import MAX_TEXT, plain
from stepward.sdk.presence import Presence
from stepward.sdk.recorder import Recorder
from stepward.sdk.run import Run
from stepward.sdk.secrets import mask_text
from stepward.settings import Settings
from stepward.spool.journal import Journal, WriterMeta
from stepward.spool.roots import warn

_current: Run | None = None
_ordinal = 0
_said_no_run = False


def init(
    project: str | None = None,
    name: str | None = None,
    config: Any = None,
    *,
    tags: Iterable[str] | None = None,
    kind: str = RunKind.TRAINING,
    role: str = "trainer",
    run: str | None = None,
    notes: str | None = None,
    capture_output: bool = False,
    strict: bool = False,
) -> Run:
    """Begin a run of this process, or join the one that launcher, scheduler or ``run`` name.

    Args:
        project: project; ``STEPWARD_PROJECT``, the configuration file, else ``default``. Under ``stepward run`` the
            run is the wrapper's, and so is its project.
        name: for display; any number of runs may have it.
        config: settings of any kind: mappings, dataclasses, argparse, msgspec, pydantic, OmegaConf, attrs.
        tags: labels.
        kind: ``training``, ``rl``, ``inference`` or ``evaluation``.
        role: of this process: ``trainer``, ``sampler``, ``reward``, ``server``.
        run: a run id, or any text as a key: the same key in a project is always the same run.
        notes: words for people.
        capture_output: keep what Python prints (``stepward run`` keeps all output without this).
        strict: raise ``UsageError`` for wrong use instead of saying it once.

    Raises:
        UsageError: a wrong argument or setting; nothing has begun then.
    """
    global _current
    kind_of_run, labels = _checked_kind(kind), _checked_tags(tags)
    for label, value in (("project", project), ("name", name), ("run", run), ("role", role), ("notes", notes)):
        _check_text(label, value)
    settings = configured.load(project=_wrapped_project(project))
    if _current is not None and not _current.finished:
        _current.finish()
    began = _begin(settings, name=name, role=role, run=run, strict=strict, capture_output=capture_output)
    me = began._presence.me
    began._journal.emit("config", _first_config(me, name, kind_of_run, labels, notes))
    if config is not None and me.rank == 0:
        began.config.update(config)
    _current = began
    began.start(exits.watch(began.ends_with_process, began.thread_failed))
    _greet(began, me, settings)
    return began


def _wrapped_project(project: str | None) -> str | None:
    """The project of the wrapper that this process runs under, else the one asked for."""
    wrapped = os.environ.get("STEPWARD_PROJECT") if os.environ.get("STEPWARD_WRAPPER") else None
    if wrapped and project not in (None, wrapped):
        warn(f"the run belongs to project {wrapped}, not {project}: give it to `stepward run --project {project}`")
    return wrapped or project


def current_run() -> Run | None:
    """The run of this process; None before ``init`` and after ``finish``."""
    return _current if _current is not None and not _current.finished else None


def log(values: Mapping[str, object], step: int | None = None) -> None:
    """``Run.log`` of the current run."""
    if _current is None:
        _say_no_run("log")
    else:
        _current.log(values, step)


def step(step: int) -> AbstractContextManager[Any]:
    """``Run.step`` of the current run."""
    return _current.step(step) if _current is not None else _no_run("step")


def phase(name: str) -> AbstractContextManager[Any]:
    """``Run.phase`` of the current run."""
    return _current.phase(name) if _current is not None else _no_run("phase")


def finish(exit_code: int | None = None) -> None:
    """``Run.finish`` of the current run; nothing without one."""
    if _current is not None:
        _current.finish(exit_code)


def _begin(
    settings: Settings, *, name: str | None, role: str, run: str | None, strict: bool, capture_output: bool
) -> Run:
    global _ordinal
    _ordinal += 1
    facts = read_facts()
    me = identify(os.environ, facts, project=settings.project, run=run)
    if _ordinal > 1 and me.attempt.startswith("process:"):
        # A cell that runs again is another attempt, though the process is the same.
        me = msgspec.structs.replace(me, attempt=f"{me.attempt}.{_ordinal}")
    source = Source(kind=SourceKind.RANK, attempt=me.attempt, rank=me.rank, role=role, node=me.node, pid=facts.pid)
    meta = WriterMeta(
        project=settings.project,
        run=None,
        writer=ulid(),
        source=source,
        created_at=time.time_ns() // 1000,
        key=me.key,
    )
    recorder = Recorder(Journal.create(settings.spool, meta))
    wrapped = bool(os.environ.get("STEPWARD_WRAPPER"))
    return Run(
        Presence(settings, me, facts, recorder, role=role, ordinal=_ordinal),
        recorder,
        project=settings.project,
        server=settings.server,
        name=name,
        strict=strict,
        sampling=not wrapped,
        capture_output=capture_output and not wrapped,
    )


def _first_config(me: Identity, name: str | None, kind: RunKind, tags: list[str] | None, notes: str | None) -> Config:
    """What the run is; only rank 0 speaks for all."""
    now = time.time_ns() // 1000
    if me.rank != 0:
        return Config(started_at=now, ranks=me.world)
    return Config(
        key=me.key,
        name=mask_text(name) if name else None,
        kind=kind,
        tags=tags,
        notes=mask_text(notes) if notes else None,
        job=me.job,
        ranks=me.world,
        started_at=now,
    )


def _greet(run: Run, me: Identity, settings: Settings) -> None:
    if me.rank != 0 or os.environ.get("STEPWARD_WRAPPER"):
        return
    label = run.name or me.run
    if settings.server:
        warn(f"run {label}: {settings.server}/runs/{me.run}")
    else:
        warn(f"run {label} is kept in {settings.spool}: no server is known; start one with `stepward up`")


def _checked_kind(kind: str) -> RunKind:
    try:
        return RunKind(kind)
    except ValueError:
        kinds = ", ".join(RunKind)
        raise UsageError(f"{kind!r} is no kind of run", code="bad_argument", hint=f"one of {kinds}") from None


def _checked_tags(tags: Iterable[str] | None) -> list[str] | None:
    if tags is None:
        return None
    labels = [tags] if isinstance(tags, str) else list(tags) if isinstance(tags, Iterable) else [None]
    if not all(map(_is_text, labels)):
        raise UsageError("tags are texts that are not empty", code="bad_argument", hint='tags=["ablation"]')
    return labels


def _check_text(label: str, value: object) -> None:
    if value is not None and not _is_text(value):
        raise UsageError(f"{label} is a text that is not empty", code="bad_argument", hint=f"got {plain(value)!r:.80}")


def _is_text(value: object) -> bool:
    """Whether a frame can carry it: a text, not empty, not endless, without halves of characters."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT:
        return False
    return value.encode(errors="replace").decode() == value


def _no_run(what: str) -> AbstractContextManager[Any]:
    _say_no_run(what)
    return nullcontext()


def _say_no_run(what: str) -> None:
    global _said_no_run
    if not _said_no_run:
        _said_no_run = True
        warn(f"{what}() without a run is not recorded: call stepward.init() first (said once)")
