"""The typed API: one method a route of ``docs/api.md``, answers as the structs of ``model.resources``.

How a request becomes an answer or an error is in ``calls``, what Slurm has in ``slurm``. The client keeps no state but its
connection, and tries nothing twice: who calls knows whether waiting makes sense (``Unavailable.retry_after_s``).
"""

from collections.abc import Iterator
from urllib.parse import urlencode

from stepward.client.calls import Query, decoded, segment
from stepward.client.live import Live
from stepward.client.problems import error_of
from stepward.client.slurm import SlurmCalls
from stepward.client.stream import open_lines
from stepward.diagnose.document import StoredDiagnosis
from stepward.errors import NotFound, UsageError
from stepward.goodput.answers import FleetGoodput, RunGoodput
from stepward.model.nodes import RunNode
from stepward.model.notices import KnownRoute, NewSilence, Notice, NoticeRoute, Silence, Told
from stepward.model.points import Chart, Series, StepTable
from stepward.model.resources import (
    Backup,
    EventPage,
    Health,
    LoginLink,
    LogLine,
    LogPage,
    LogStream,
    NewToken,
    Project,
    ProjectChange,
    ProjectRules,
    Reprocessing,
    RulesChange,
    Run,
    RunChange,
    RunConfig,
    RunEvent,
    RunPage,
    Session,
    Source,
    Token,
)
from stepward.settings import Settings

PAGE_RUNS, PAGE_LINES = 500, 5000
"""Largest pages that the API gives (docs/api.md)."""
TEST_S = 130.0
"""A route of notices may take up to two minutes for a message."""
DIAGNOSE_S = 60.0
"""Long output is read."""
BACKUP_S = 3600.0
"""A backup copies all data before it answers."""


class Client(SlurmCalls):
    """A server, as the bearer of one token sees it.

    Every method raises ``Unavailable`` where the server does not answer, ``Unauthenticated`` or ``PermissionDenied``
    where the token will not do, and ``NotFound`` where there is no such thing. A run is named by id or unique name.
    """

    @classmethod
    def of(cls, settings: Settings) -> "Client":
        """A client of the server of these settings.

        Raises:
            UsageError: ``no_server``, ``bad_server_url``.
        """
        if settings.server is None:
            raise UsageError(
                "no server is known",
                code="no_server",
                hint="start one with `stepward up`, or name one with `stepward login URL` or STEPWARD_SERVER",
            )
        try:
            return cls(settings.server, settings.token)
        except ValueError as error:
            raise UsageError(f"{settings.server} is no URL: {error}", code="bad_server_url") from None

    # ── server and caller ──

    def health(self) -> Health:
        """Whether the server serves; needs no token."""
        return self._get("/healthz", {}, Health)

    def ready(self) -> Health:
        """What the server cannot do now, if anything; needs no token."""
        answer = self._transport.request("GET", "/readyz")
        if answer.status not in (200, 503):
            raise error_of(f"{self.server}/readyz", answer.status, answer.headers, answer.body)
        return decoded(answer.body, Health, "/readyz")

    def session(self) -> Session:
        """Who the token is, and what the server is."""
        return self._get("/api/v1/session", {}, Session)

    def login_link(self) -> LoginLink:
        """A new one-time link that signs a browser in."""
        return self._send("POST", "/api/v1/login-links", None, LoginLink)

    def tokens(self) -> list[Token]:
        """All tokens, without their secrets."""
        return self._get("/api/v1/tokens", {}, list[Token])

    def create_token(self, asked: NewToken) -> Token:
        """A new token, with its secret."""
        return self._send("POST", "/api/v1/tokens", asked, Token)

    def revoke_token(self, token: str) -> None:
        """End a token, by id."""
        self._call("DELETE", f"/api/v1/tokens/{segment(token)}")

    def backup(self, path: str | None = None) -> Backup:
        """Back the server up into ``path``, a new folder on its disk, or below its data folder; returns when it is done."""
        asked = "" if path is None else f"?{urlencode({'path': path})}"
        return self._send("POST", f"/api/v1/backups{asked}", None, Backup, timeout_s=BACKUP_S)

    # ── runs ──

    def projects(self) -> list[Project]:
        """The caller's projects."""
        return self._get("/api/v1/projects", {}, list[Project])

    def change_project(self, name: str, change: ProjectChange, *, dry_run: bool = False) -> Project:
        """Change a project; ``dry_run`` only tells what that would make of it."""
        path = f"/api/v1/projects/{segment(name)}{'?dry_run=1' if dry_run else ''}"
        return self._send("PATCH", path, change, Project)

    def runs(
        self,
        *,
        filter: str | None = None,
        sort: str | None = None,
        project: str | None = None,
        limit: int | None = None,
        metrics: list[str] | None = None,
    ) -> Iterator[Run]:
        """Runs that match, page by page; ``limit`` at most.

        Args:
            metrics: names, ``*`` for any characters, of the newest values wanted; None leaves the choice to the server.
        """
        left, cursor = limit, None
        while left is None or left > 0:
            query: Query = {"filter": filter, "sort": sort, "project": project, "cursor": cursor}
            # An empty name asks for none: a list without entries would not be in the address at all.
            query |= {"limit": min(left or PAGE_RUNS, PAGE_RUNS), "metrics": metrics if metrics != [] else [""]}
            page = self._get("/api/v1/runs", query, RunPage)
            yield from page.items[:left]
            left = None if left is None else left - len(page.items)
            cursor = page.next
            if cursor is None:
                return

    def run(self, run: str) -> Run:
        """A run."""
        return self._get(_run(run), {}, Run)

    def change_run(self, run: str, change: RunChange) -> Run:
        """Change what people may change of a run."""
        return self._send("PATCH", _run(run), change, Run)

    def delete_run(self, run: str) -> None:
        """Delete a run and all that it wrote."""
        self._call("DELETE", _run(run))

    def config(self, run: str) -> RunConfig:
        """The three trees of a run."""
        return self._get(f"{_run(run)}/config", {}, RunConfig)

    def sources(self, run: str) -> list[Source]:
        """Ranks, wrappers and agents of a run."""
        return self._get(f"{_run(run)}/sources", {}, list[Source])

    def goodput(self, run: str) -> RunGoodput:
        """Where every second of a run went."""
        return self._get(f"{_run(run)}/goodput", {}, RunGoodput)

    def fleet_goodput(self, *, project: str | None = None, since: str | None = None) -> FleetGoodput:
        """Where the device time of the runs went that were alive in the last ``since`` (``24h``, ``7d``)."""
        return self._get("/api/v1/goodput", {"project": project, "since": since}, FleetGoodput)

    def series(self, run: str) -> list[Series]:
        """The metrics that a run has."""
        return self._get(f"{_run(run)}/series", {}, list[Series])

    def points(
        self,
        run: str,
        metric: str,
        *,
        x: str = "step",
        start: float | None = None,
        end: float | None = None,
        buckets: int | None = None,
        by: str = "none",
        rank: int | None = None,
        device: int | None = None,
        attempt: int | None = None,
    ) -> Chart:
        """A metric as lines of at most ``buckets`` buckets; ``start`` and ``end`` are in units of ``x``."""
        query = {"metric": metric, "x": x, "start": start, "end": end, "buckets": buckets, "by": by}
        query |= {"rank": rank, "device": device, "attempt": attempt}
        return self._get(f"{_run(run)}/points", query, Chart)

    def steps(self, run: str, *, rank: int | None = None, last: int | None = None) -> StepTable:
        """The newest steps, with the seconds of each phase."""
        return self._get(f"{_run(run)}/steps", {"rank": rank, "last": last}, StepTable)

    def events(self, run: str, **filters: str | None) -> list[RunEvent]:
        """The newest events of a run, oldest first; ``filters``: type, certainty, severity, since, by."""
        return self._get(f"{_run(run)}/events", filters, list[RunEvent])

    def event(self, run: str, event: str) -> RunEvent:
        """One event of a run."""
        return self._get(f"{_run(run)}/events/{segment(event)}", {}, RunEvent)

    def all_events(self, *, limit: int = 100, cursor: str | None = None, **filters: str | None) -> EventPage:
        """What detectors saw in all runs, the newest first; ``filters`` as of ``events``, and project, run."""
        return self._get("/api/v1/events", {"limit": limit, "cursor": cursor, **filters}, EventPage)

    def reprocess(self, run: str, *, dry_run: bool = False) -> Reprocessing:
        """Have a stored run judged again; ``reprocessing`` says how far that is."""
        query = "?dry_run=true" if dry_run else ""
        return self._send("POST", f"{_run(run)}/reprocess{query}", None, Reprocessing)

    def reprocessing(self, run: str, job: str) -> Reprocessing:
        """How far it is, and what it changes."""
        return self._get(f"{_run(run)}/reprocess/{segment(job)}", {}, Reprocessing)

    def rules(self, project: str) -> ProjectRules:
        """The rules by which a project's people judge metrics."""
        return self._get(f"/api/v1/projects/{segment(project)}/rules", {}, ProjectRules)

    def change_rules(self, project: str, text: str) -> ProjectRules:
        """Put rules in place of all that a project has."""
        return self._send("PUT", f"/api/v1/projects/{segment(project)}/rules", RulesChange(text), ProjectRules)

    def diagnosis(self, run: str) -> StoredDiagnosis:
        """The newest diagnosis of a run; ``NotFound`` with ``no_diagnosis`` where it has none."""
        return self._get(f"{_run(run)}/diagnosis", {}, StoredDiagnosis)

    def diagnoses(self, run: str) -> list[StoredDiagnosis]:
        """All diagnoses of a run, the newest first: of its attempts (``event`` None) and of events."""
        return self._get(f"{_run(run)}/diagnoses", {}, list[StoredDiagnosis])

    def make_diagnosis(self, run: str) -> StoredDiagnosis:
        """Have the newest attempt of a run diagnosed now."""
        return self._send("POST", f"{_run(run)}/diagnosis", None, StoredDiagnosis, timeout_s=DIAGNOSE_S)

    def notices(self, *, limit: int = 50) -> list[Notice]:
        """The newest messages of the outbox."""
        return self._get("/api/v1/notices", {"limit": limit}, list[Notice])

    def notice_routes(self) -> list[KnownRoute]:
        """The routes of notices; of addresses the host alone."""
        return self._get("/api/v1/notices/routes", {}, list[KnownRoute])

    def put_notice_route(self, route: NoticeRoute) -> KnownRoute:
        """Make or change a webhook."""
        return self._send("PUT", f"/api/v1/notices/routes/{segment(route.name)}", route, KnownRoute)

    def delete_notice_route(self, name: str) -> None:
        """Forget a webhook."""
        self._call("DELETE", f"/api/v1/notices/routes/{segment(name)}")

    def test_notice_route(self, name: str) -> Told:
        """Send a test message, and say how it went."""
        return self._send("POST", f"/api/v1/notices/routes/{segment(name)}/test", None, Told, timeout_s=TEST_S)

    def silences(self) -> list[Silence]:
        """Silences that are not over."""
        return self._get("/api/v1/notices/silences", {}, list[Silence])

    def silence(self, asked: NewSilence) -> Silence:
        """Begin a silence."""
        return self._send("POST", "/api/v1/notices/silences", asked, Silence)

    def end_silence(self, id: str) -> None:
        """End a silence."""
        self._call("DELETE", f"/api/v1/notices/silences/{segment(id)}")

    def log_streams(self, run: str) -> list[LogStream]:
        """The streams of output that a run has."""
        return self._get(f"{_run(run)}/logs", {}, list[LogStream])

    def log_page(
        self,
        run: str,
        stream: str,
        *,
        from_n: int | None = None,
        tail: int | None = None,
        limit: int | None = None,
        q: str | None = None,
    ) -> LogPage:
        """Lines of a stream: the last ``tail``, or from number ``from_n`` on, or those that ``q`` matches."""
        query = {"from_n": from_n, "tail": tail, "limit": limit, "q": q}
        return self._get(f"{_run(run)}/logs/{segment(stream)}", query, LogPage)

    def log_lines(self, run: str, stream: str, *, from_n: int = 1, q: str | None = None) -> Iterator[LogLine]:
        """All lines of a stream from number ``from_n`` (the first is 1) on, or those that ``q`` matches, page by page."""
        while True:
            page = self.log_page(run, stream, from_n=from_n, limit=PAGE_LINES, q=q)
            yield from page.lines
            if not page.lines:
                return
            last = page.lines[-1]
            from_n = (last.n_last or last.n) + 1

    def export(self, run: str) -> Iterator[bytes]:
        """All points of a run, one JSON object a line, as they come."""
        with open_lines(self.server, self._token, f"{_run(run)}/export") as lines:
            yield from lines

    def live(self, *, runs: bool = False, run: list[str] | None = None, events: bool = False) -> Live:
        """Live updates of all runs (``runs``), of the details of some (``run``), of what detectors see in any (``events``).

        Runs come without newest values.
        """
        asked = [("metrics", "")] + [("runs", "1")] * runs + [("events", "1")] * events
        asked += [("run", one) for one in run or []]
        return Live(lambda: open_lines(self.server, self._token, f"/api/v1/live?{urlencode(asked)}"))

    def run_nodes(self, run: str) -> list[RunNode]:
        """The nodes of each attempt of a run, with their intervals and series."""
        return self._get(f"{_run(run)}/nodes", {}, list[RunNode])


def _run(run: str) -> str:
    if run in ("", ".", ".."):  # the path of another route
        raise NotFound(f"there is no run {run!r}", code="no_such_run", hint="`stepward ls` lists the runs")
    return f"/api/v1/runs/{segment(run)}"
