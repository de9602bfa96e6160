"""The worker behind notices: takes what was seen into the outbox, and tells what is due.

Taking is on the thread of whoever saw it and writes a row; telling is on a thread of its own, so that a receiver that
hangs holds up nobody but other messages. Every message that is in the outbox is told at least once: it is in the catalog.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from stepward.detect.signals import Certainty, Detected
from stepward.errors import NotFound, StepwardError
from stepward.model.frames import Event
from stepward.model.identity import ulid
from stepward.model.notices import SEVERITIES, NoticeItem, Severity, Silence
from stepward.model.resources import instant
from stepward.respond.notices.message import Describe, command_input, run_lines, webhook_body
from stepward.respond.notices.routes import LiveRoute, Routes, tells
from stepward.respond.notices.sending import Failure, post, run
from stepward.store.catalog.detected import event_id
from stepward.store.catalog.diagnoses import KnownAttempt
from stepward.store.catalog.notices import SENT, SILENCED, Outbox, Waiting

US = 1_000_000
NEWS_US = 3600 * US
"""What was seen longer ago is no news: of a spool that comes days later nobody is woken."""
FIRST_RETRY_S, LAST_RETRY_S = 2.0, 600.0
GIVEN_UP_US = 86_400 * US
"""A message that did not arrive within a day is given up."""
LOOK_S = 0.5
HOUR_US = 3600 * US
POINTS = frozenset({"crash", "oom", "preemption", "loss_spike", "non_finite"})
"""Types of events that are not over in a sense that anybody waits for."""
_log = logging.getLogger("stepward.notices")


class Notifier:
    """Tells people.

    Args:
        describe: what to say of a run and an event.
        url: where people reach the server.
        clock: µs since the epoch.
    """

    def __init__(
        self, outbox: Outbox, routes: Routes, describe: Describe, url: Callable[[], str], clock: Callable[[], int]
    ) -> None:
        self._outbox, self._routes, self._describe = outbox, routes, describe
        self._url, self._clock = url, clock
        self._tidied = 0
        self._stopped, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="notices", daemon=True)

    def start(self) -> None:
        """Tell what is due from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a message that is being told may be told again at the next start."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2 * LOOK_S)
        self._closed.set()

    # ── taking ──

    def follow_events(self, project: str, run: str, events: Sequence[Detected]) -> None:
        """Hear what detectors say."""
        for event in events:
            id_ = event_id(event.id)
            if event.certainty is Certainty.WITHDRAWN:
                self._guarded(partial(self._outbox.take_back, run, id_))
            elif event.certainty is Certainty.CONFIRMED:
                for item in _items(project, run, id_, event):
                    self._take(item, event.detected_at)

    def follow_own(self, project: str, run: str, event: Event) -> None:
        """Hear what the server itself says of a run: that it stopped something."""
        item = NoticeItem(
            run=run,
            project=project,
            event=event.id,
            phase="began",
            type=event.type,
            severity="critical",
            title=event.title,
            at=instant(event.started_at),
            data=event.data,
        )
        self._take(item, event.started_at)

    def follow_end(self, attempt: KnownAttempt) -> None:
        """Hear that an attempt ended badly."""
        at = attempt.ended_at if attempt.ended_at is not None else self._clock()
        title = f"attempt {attempt.number}" + (f": {attempt.reason}" if attempt.reason else "")
        item = NoticeItem(
            run=attempt.run,
            project=attempt.project,
            event=f"end:{attempt.key}",
            phase="end",
            type=attempt.state.value,
            severity="critical",
            title=title,
            at=instant(at),
            data={"attempt": attempt.number, "nodes": attempt.nodes[:64]},
        )
        self._take(item, at)

    def _take(self, item: NoticeItem, seen_at: int) -> None:
        now = self._clock()
        if seen_at < now - NEWS_US:
            return

        def take() -> None:
            for live in self._routes.all():
                wanted = tells(live.route.filter, item) and (item.phase != "ended" or live.route.recovery)
                if wanted and seen_at >= live.since:
                    self._outbox.add(live.route.name, item, now=now, due_at=now + round(live.route.group_s * US))

        self._guarded(take)

    def _guarded(self, work: Callable[[], None]) -> None:
        """What cannot be kept now is said; whoever saw it goes on."""
        try:
            work()
        except StepwardError as error:
            _log.warning("a notice is lost: %s", error)

    # ── telling ──

    def _work(self) -> None:
        while not self._stopped.wait(LOOK_S):
            try:
                waiting = self._outbox.due(self._clock())
                routes = {live.route.name: live for live in self._routes.all()} if waiting else {}
                for message in waiting:
                    if self._stopped.is_set():
                        return
                    self._tell(message, routes.get(message.route))
                if not waiting:
                    self._tidy()
            except StepwardError as error:
                _log.warning("%s", error)
            except Exception:
                _log.exception("telling failed")

    def _tidy(self) -> None:
        now = self._clock()
        if now - self._tidied > HOUR_US:
            self._tidied = now
            self._outbox.forget(now)

    def _tell(self, message: Waiting, live: LiveRoute | None) -> None:
        now = self._clock()
        if live is None:
            self._outbox.missed(message.id, "the route is gone", None)
            return
        silences = self._outbox.silences(now)
        items = [item for item in message.items if not silenced(item, silences)]
        if not items:
            self._outbox.done(message.id, SILENCED, now)
            return
        sent = self._outbox.sent_since(live.route.name, now - HOUR_US)
        if len(sent) >= live.route.per_hour and not message.tries:
            self._outbox.later(message.id, sent[-live.route.per_hour] + HOUR_US)
            return
        failure = self._send(live, message.id, items)
        if self._closed.is_set():
            return
        if failure is None:
            self._outbox.done(message.id, SENT, self._clock())
            return
        _log.warning("route %s: %s", live.route.name, failure.why)
        over = failure.final or now - message.made_at > GIVEN_UP_US
        wait = max(backoff_s(message.tries), failure.after_s or 0.0)
        self._outbox.missed(message.id, failure.why, None if over else self._clock() + round(wait * US))

    def _send(self, live: LiveRoute, id: str, items: Sequence[NoticeItem]) -> Failure | None:
        lines = run_lines(items, self._describe)
        if live.route.kind == "command":
            return run(live.route, command_input(id, live.route.name, items, lines))
        runs = dict.fromkeys(item.run for item in items)
        base = self._url()
        links = [f"{base}/runs/{run_}" for run_ in runs] if len(runs) == 1 else []
        return post(live.route, id, webhook_body(id, lines, links))

    def test(self, name: str) -> str | None:
        """Tell one message by a route now; why it did not arrive, None where it did.

        Raises:
            NotFound: ``no_such_notice_route``.
        """
        live = next((live for live in self._routes.all() if live.route.name == name), None)
        if live is None:
            raise NotFound(f"no route {name!r}", code="no_such_notice_route", hint="stepward notices ls")
        item = NoticeItem(
            run="",
            project="test",
            event="test",
            phase="began",
            type="test",
            severity="info",
            title="this is a test of the route",
            at=instant(self._clock()),
        )
        lines = [("stepward: this is a test of the route " + name, list[str]())]
        id_ = ulid()
        if live.route.kind == "command":
            failure = run(live.route, command_input(id_, name, [item], lines))
        else:
            failure = post(live.route, id_, webhook_body(id_, lines, []))
        return None if failure is None else failure.why


def silenced(item: NoticeItem, silences: Iterable[Silence]) -> bool:
    """Whether some silence covers an item: all that it names fits."""
    return any(
        one.project in (None, item.project) and one.run in (None, item.run) and one.type in (None, item.type)
        for one in silences
    )


def backoff_s(tries: int) -> float:
    """Seconds until the next attempt after so many that failed before."""
    return float(min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(tries, 20)))


def _items(project: str, run_: str, id_: str, event: Detected) -> list[NoticeItem]:
    """An event that began, and, where somebody may wait for that, that it is over."""
    severity: Severity = event.severity if event.severity in SEVERITIES else "warning"
    began = NoticeItem(
        run=run_,
        project=project,
        event=id_,
        phase="began",
        type=event.type,
        severity=severity,
        title=event.title,
        at=instant(event.started_at),
        data={
            "attempt": event.attempt,
            "step": event.step,
            "ranks": list(event.ranks[:64]),
            "nodes": list(event.nodes[:64]),
        },
    )
    # An end of the attempt is no recovery.
    with_attempt = str(event.data.get("ended_by", "")).startswith("the attempt ended")
    if event.ended_at is None or event.type in POINTS or with_attempt:
        return [began]
    ended = NoticeItem(
        run=run_,
        project=project,
        event=id_,
        phase="ended",
        type=event.type,
        severity=severity,
        title=event.title,
        at=instant(event.ended_at),
        data=began.data,
    )
    return [began, ended]
