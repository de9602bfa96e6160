"""When checks are looked at, what counts, and which intervals are told as events."""

from stepward.agent.checks.protocol import Check, Result, Severity, bad, ok, unknown
from stepward.agent.checks.rounds import Rounds


class Bench:
    """One check whose answers are given in advance."""

    def __init__(self, *answers, since=None, **check):
        self.answers, self.events, self.now = list(answers), [], 0.0
        check = {"name": "disk", "severity": Severity.HIGH, "look": self.look, "period_s": 30.0, **check}
        self.rounds = Rounds([Check(**check)], lambda: int(self.now * 1e6) + 1_000_000, self.events.append, since)

    def look(self, now):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def turn(self, now):
        self.now = now
        return self.rounds.turn(lambda: now)

    @property
    def finding(self):
        return self.rounds.findings()[0]


def test_a_check_is_looked_at_when_it_is_due():
    bench = Bench(ok(), ok(), bad("full"))
    assert bench.turn(0.0)
    assert not bench.turn(29.0)
    assert not bench.turn(30.0)
    assert bench.turn(60.0)
    assert bench.answers == []


def test_a_bad_interval_is_one_event_that_ends_when_it_is_ok():
    bench = Bench(ok(), bad("full"), bad("fuller"), unknown("no answer"), bad("full"), ok())
    for now in range(0, 180, 30):
        bench.turn(float(now))
    assert {event.id for event in bench.events} == {"check-disk-31000000"}
    begun, ended = bench.events
    assert (begun.started_at, begun.ended_at, begun.title) == (31_000_000, None, "disk: full")
    assert (ended.started_at, ended.ended_at) == (31_000_000, 151_000_000)


def test_what_must_be_confirmed_is_unknown_at_first():
    bench = Bench(bad("silent"), ok(), bad("silent"), bad("silent"), confirm=2)
    results = []
    for now in range(0, 120, 30):
        bench.turn(float(now))
        results.append(bench.finding.answer.result)
    assert results == [Result.UNKNOWN, Result.OK, Result.UNKNOWN, Result.BAD]
    assert len(bench.events) == 1


def test_what_raises_is_unknown():
    bench = Bench(ValueError("odd"))
    bench.turn(0.0)
    assert (bench.finding.answer.result, bench.finding.answer.reason) == (Result.UNKNOWN, "ValueError: odd")


def test_a_look_that_hangs_is_unknown_meanwhile():
    bench = Bench(deadline_s=10.0)

    def hang(now):
        assert not bench.rounds.overdue(now + 9.0)
        assert bench.rounds.overdue(now + 11.0)
        assert not bench.rounds.overdue(now + 12.0)
        bench.seen = bench.finding.answer
        return ok()

    bench.rounds._checks[0] = Check(name="disk", severity=Severity.HIGH, look=hang, deadline_s=10.0)
    assert bench.turn(0.0)
    assert (bench.seen.result, bench.seen.reason) == (Result.UNKNOWN, "no answer in 10 s")
    assert bench.finding.answer.result is Result.OK
    assert not bench.rounds.overdue(100.0)


def test_an_agent_goes_on_with_the_interval_that_the_one_before_it_left():
    going_on = Bench(bad("full"), since={"disk": 7, "unheard_of": 8})
    going_on.turn(0.0)
    assert going_on.events == []
    assert going_on.finding.since == 7
    over = Bench(ok(), since={"disk": 7})
    over.turn(0.0)
    assert [(event.id, event.ended_at) for event in over.events] == [("check-disk-7", 1_000_000)]
