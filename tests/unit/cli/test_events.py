"""Events as people see them, and as they come: each change once, hostile text harmless."""

from stepward.cli.events import Following, columns, lasted
from stepward.cli.table import Format
from stepward.model.resources import EventPage, RunEvent
from stepward.model.updates import EventsUpdate

T0 = 1_796_083_200.0


def event(id="e", *, run="run_x", certainty="confirmed", ended=None, title="Rank 3 stands", detector="hang/1"):
    return RunEvent(
        id=id, type="hang", started_at="2026-12-01T00:00:00.000000Z", ended_at=ended, title=title, run=run,
        run_name="job", certainty=certainty, severity="critical", detector=detector, ranks=[3, 4, 5, 6, 7],
    )  # fmt: skip


def test_what_lasts_is_told_apart_from_an_instant():
    assert lasted(event(), T0 + 90).endswith("…")
    assert "…" not in lasted(event(ended="2026-12-01T00:01:00.000000Z"), T0 + 90)
    assert lasted(event(detector=None, certainty=None), T0 + 90) == "-"
    assert lasted(event(certainty="withdrawn"), T0 + 90) == "-"


def test_a_list_of_one_run_does_not_repeat_its_name():
    assert "run" in [column.name for column in columns(T0, of_run=False)]
    shown = {column.name: column.cell(event(title="a\x1b[2Jb")) for column in columns(T0, of_run=True)}
    assert "run" not in shown and "\x1b" not in shown["title"]
    assert shown["ranks"] == "3 4 5 6 +1"


class Server:
    """Answers the newest events as they are set."""

    def __init__(self):
        self.items = []

    def all_events(self, **asked):
        return EventPage([*self.items])

    def live(self, **asked):
        return self

    def next(self, timeout_s):
        items, update = self.rounds.pop(0)
        self.items = items
        return update


def test_each_change_is_printed_once(capsys):
    server = Server()
    over = "2026-12-01T00:02:00.000000Z"
    update = EventsUpdate("run_x", [])
    gone = EventsUpdate("run_x", [event("f", run=None, certainty="withdrawn")])
    server.rounds = [
        ([event(certainty="suspected")], update),
        ([event()], update),
        ([event(), event("f", certainty="suspected")], update),
        ([event(ended=over)], gone),
        ([event(ended=over)], KeyboardInterrupt()),
    ]

    def stop(update):
        if isinstance(update, KeyboardInterrupt):
            raise update
        return update

    wait, server.next = server.next, lambda timeout_s: stop(wait(timeout_s))
    try:
        Following(server, None, {}, Format.TABLE).until_the_end()
    except KeyboardInterrupt:
        lines = capsys.readouterr().out.splitlines()
    said = [line[line.index("(") + 1 : line.index(")")] for line in lines]
    assert said == ["suspected", "confirmed", "suspected", "confirmed, over", "withdrawn"]
    assert all(line.startswith("2026-12-01T00:00:00Z job: hang") for line in lines)
