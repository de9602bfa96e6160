"""The course of a run: attempts, their begins, blocks of steps, stops and restarts, one segment of time after the other.

A segment says what happens; what is measured of it is the matter of ``readings`` and ``telling``.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from stepward.detect.signals import (
    AttemptEnded,
    AttemptStarted,
    Checkpoint,
    PhaseBegan,
    PhaseEnded,
    Signal,
    Waited,
)
from stepward.testing.simulator import aftermath, speech
from stepward.testing.simulator.block import OWN, Block, Pause
from stepward.testing.simulator.layout import Floats
from stepward.testing.simulator.noise import Noise, stream
from stepward.testing.simulator.plan import Plan
from stepward.testing.simulator.segment import Segment, Still
from stepward.testing.simulator.trouble import Opening, Stop, Trouble
from stepward.testing.simulator.voice import Voice

ROWS = 128
"""Steps of a block."""
BLIPS = 0.003
"""Share of steps that one rank stretches for no reason."""
DAY_S = 86_400.0


class Course:
    """Runs a plan through its troubles.

    Attributes:
        outcome: state of the last attempt, once the course is over.
        ends: (attempt, begin, end, state, reason) of each attempt.
    """

    def __init__(self, plan: Plan, troubles: Sequence[Trouble]) -> None:
        self.plan, self.troubles, self.voice = plan, troubles, Voice(plan)
        self.outcome = ""
        self.ends: list[tuple[str, float, float, str, str]] = []
        ranks = plan.layout.ranks
        dice = stream(plan.seed, "ranks")
        self._spread = np.exp(plan.spread * dice.standard_normal(ranks))
        self._common = Noise(stream(plan.seed, "common"), plan.cv, plan.rho, 1)
        self._own = Noise(stream(plan.seed, "own"), plan.rank_cv, plan.rho / 2, ranks)
        self._blips, self._saves = stream(plan.seed, "blips"), stream(plan.seed, "saves")
        self._attempts = stream(plan.seed, "attempts")
        self._saves_pending: list[tuple[float, int]] = []
        self._saved = self._first = 0
        self._again = False

    def segments(self) -> Iterator[Segment]:
        """The run from its first to its last instant."""
        now, number = 0.0, 0
        while True:
            attempt = str(number)
            self.voice.attempt = attempt
            began = now
            opening, who = next(((o, t) for t in self.troubles if (o := t.opening(number))), (Opening(), None))
            for segment in self._begin(opening, who, number, now):
                yield segment
                now = segment.end
            again, state, reason = opening.again, opening.state, opening.reason
            if opening.fails_after_s is None:
                state, reason, again = "finished", "", False
                scale = float(np.exp(self._attempts.normal(0.0, 0.05))) if number else 1.0
                for segment in self._steps(number, now, scale):
                    yield segment
                    now = segment.end
                    if (ended := next((s for s in segment.signals if isinstance(s, AttemptEnded)), None)) is not None:
                        state, reason = ended.state, ended.reason
                again = self._again
            self.ends.append((attempt, began, now, state, reason))
            self.outcome = state
            if not again or number >= self._limit():
                return
            number += 1
            now += float(self._attempts.uniform(15, 90))

    def _limit(self) -> int:
        return max([self.plan.restarts, *(getattr(trouble, "attempts", 0) for trouble in self.troubles)])

    def _begin(self, opening: Opening, who: Trouble | None, number: int, now: float) -> Iterator[Segment]:
        plan, at, attempt = self.plan, self.voice.at, str(number)
        ready = now + (opening.waited_s or 0.0)
        resumed = self._saved if number else None
        init, compile_s = plan.habits.init_s, plan.habits.compile_s
        length = init + compile_s if opening.fails_after_s is None else opening.fails_after_s
        words = [text for trouble in self.troubles for text in trouble.first_words(ready, number, self.voice)]
        if opening.waited_s:
            queue = Segment(attempt, now, ready)
            if who is not None:
                who.began_s, who.ended_s = now, ready
            queue.texts = [text for text in words if text.time < at(ready)]
            queue.signals.append(Waited(at(ready), attempt, opening.waited_s, opening.why))
            yield queue
        segment = Segment(attempt, ready, ready + length)
        segment.still = self._idle("init")
        segment.signals.append(
            AttemptStarted(at(ready), attempt, plan.layout.ranks, plan.layout.places(), resumed if resumed else None)
        )
        segment.texts += speech.greeting(self.voice, plan, ready, resumed)
        if plan.telemetry.announced:
            for rank in range(plan.layout.ranks):
                segment.signals.append(PhaseBegan(at(ready + 0.5), attempt, rank, "init"))
                if opening.fails_after_s is None:
                    segment.signals += self._phases(attempt, rank, ready, init, compile_s, restored=bool(resumed))
        segment.texts += [text for text in words if text.time >= at(ready)]
        if opening.fails_after_s is not None:
            aftermath.failed_start(segment, opening, plan, self.voice)
        self._first = resumed or 0
        yield segment

    def _phases(
        self, attempt: str, rank: int, ready: float, init: float, compile_s: float, *, restored: bool
    ) -> Iterator[Signal]:
        at = self.voice.at
        middle = ready + init * (0.6 if restored else 1.0)
        yield PhaseEnded(at(middle), attempt, rank, "init")
        if restored:
            yield PhaseBegan(at(middle), attempt, rank, "restore")
            yield PhaseEnded(at(ready + init), attempt, rank, "restore")
        if compile_s:
            yield PhaseBegan(at(ready + init), attempt, rank, "compile")
            yield PhaseEnded(at(ready + init + compile_s), attempt, rank, "compile")

    def _idle(self, phase: str) -> Still:
        ranks = self.plan.layout.ranks
        everyone = np.ones(ranks, bool)
        told = phase if self.plan.telemetry.announced else None
        return Still(np.zeros(ranks), ~everyone, ~everyone, everyone, ~everyone, None, None, [told] * ranks)

    def _steps(self, number: int, now: float, scale: float) -> Iterator[Segment]:
        plan, attempt = self.plan, str(number)
        begin = np.full(plan.layout.ranks, now)
        first, opened = self._first, self._first
        self._again = False
        while first < plan.steps:
            block = self._block(first, opened, begin, scale)
            for trouble in self.troubles:
                trouble.shape(block)
            block.settle()
            stop, who = self._stopping(block, number)
            row = stop.step - first if stop else block.count
            at = self._instant(block, row, stop) if stop else 0.0
            begins = block.starts[row] if stop else begin
            if stop:
                block.cut(row)
            self._date(block, who, at)
            segment = Segment(attempt, now, float(block.ends[-1].min()) if block.count else now, block=block)
            if block.count:
                self._tell(segment, block)
                begin = block.next_begin
                segment.end = float(begin.min())
                self._settle_saves(segment)
                yield segment
                now = segment.end
            if stop and who:
                self._saves_pending = []
                last = aftermath.stopped(plan, self.voice, attempt, when=(now, at), what=(stop, who), begins=begins)
                self._again, who.ended_s = stop.again, last.end
                yield last
                return
            first += block.count
        yield aftermath.finished(plan, self.voice, attempt, now)

    def _instant(self, block: Block, row: int, stop: Stop) -> float:
        """When it stops: in the struck rank's own work, or where the peers would have been let go."""
        struck = stop.ranks[0] if stop.ranks else 0
        own = sum(float(block.seconds[p][row, struck]) for p in OWN if p in block.seconds)
        return float(block.starts[row, struck]) + 0.5 * own

    def _block(self, first: int, opened: int, begin: Floats, scale: float) -> Block:
        plan, habits = self.plan, self.plan.habits
        count, ranks = min(ROWS, plan.steps - first), plan.layout.ranks
        common, own = self._common.take(count), self._own.take(count)
        day = 1 + plan.day * np.sin(2 * np.pi * float(begin.min()) / DAY_S)
        warm = np.ones((count, 1))
        for step in range(first, min(first + count, opened + habits.warmup)):
            warm[step - first] = 1 + (habits.warmup_factor - 1) / (1 + step - opened) ** 1.5
        job = plan.step_s * scale * day * common * warm
        each = job * own * self._spread
        seconds = {
            phase: plan.shares[phase] * (np.broadcast_to(job, (count, ranks)) if phase == "collective" else each)
            for phase in ("data_wait", "forward", "backward", "collective", "optimizer")
        }
        seconds = {phase: np.array(values) for phase, values in seconds.items()}
        self._blip(seconds)
        if habits.gc_every:
            for row in range(count):
                if (first + row) % habits.gc_every == 0:
                    seconds["forward"][row, (first + row) // habits.gc_every % ranks] += habits.gc_s
        block = Block(plan.layout, first, begin, seconds)
        self._pauses(block)
        return block

    def _blip(self, seconds: dict[str, Floats]) -> None:
        count, ranks = seconds["forward"].shape
        chosen = self._blips.random((count, 1)) < BLIPS
        who = self._blips.integers(ranks, size=(count, 1))
        factor = self._blips.uniform(0.3, 2.0, (count, 1))
        seconds["backward"] += self.plan.step_s * factor * (chosen & (np.arange(ranks) == who))

    def _pauses(self, block: Block) -> None:
        habits = self.plan.habits
        for step in block.steps:
            done = step + 1
            if habits.checkpoint_every and done % habits.checkpoint_every == 0:
                takes = habits.checkpoint_s * float(np.exp(self._saves.normal(0, 0.1)))
                holds = 0.1 * takes if habits.checkpoint_async else takes
                block.pauses.append(Pause(step - block.first, "checkpoint_save", holds, takes))
            if habits.evaluate_every and done % habits.evaluate_every == 0:
                takes = habits.evaluate_s * float(np.exp(self._saves.normal(0, 0.1)))
                block.pauses.append(Pause(step - block.first, "evaluation", takes, takes))
        if not self.plan.telemetry.announced:
            # Nobody tells of them: a save in the loop makes its step long.
            for pause in block.pauses:
                block.inside[pause.row] += pause.seconds
            block.pauses = [pause._replace(seconds=0.0) for pause in block.pauses]

    def _stopping(self, block: Block, number: int) -> tuple[Stop | None, Trouble | None]:
        found = [(stop, t) for t in self.troubles if (stop := t.stop(number)) and stop.step in block.steps]
        return min(found, key=lambda pair: pair[0].step, default=(None, None))

    def _date(self, block: Block, stopping: Trouble | None, at: float) -> None:
        """Write down when troubles began and ended."""
        for trouble in self.troubles:
            if trouble.began_s is None:
                trouble.began_s = trouble.onset_in(block)
            if trouble.began_s is None and trouble is stopping:
                trouble.began_s = at
            if trouble.until is not None and trouble.until in block.steps and trouble.ended_s is None:
                trouble.ended_s = float(block.starts[trouble.until - block.first].min())

    def _tell(self, segment: Segment, block: Block) -> None:
        plan, at, attempt = self.plan, self.voice.at, segment.attempt
        for pause in block.pauses:
            begun = float(block.ends[pause.row].max()) - float(block.inside[pause.row])
            step = block.first + pause.row
            if plan.telemetry.announced:
                for rank in range(plan.layout.ranks):
                    segment.signals.append(PhaseBegan(at(begun), attempt, rank, pause.phase))
                    segment.signals.append(PhaseEnded(at(begun + pause.seconds), attempt, rank, pause.phase))
            if pause.phase == "checkpoint_save":
                self._saves_pending.append((begun + pause.held_s, step))
                if plan.telemetry.announced:
                    segment.signals.append(
                        Checkpoint(at(begun + pause.seconds), attempt, 0, step, blocking_s=pause.seconds)
                    )
                segment.texts += speech.saved(self.voice, begun, step, pause)
            else:
                segment.texts += speech.evaluated(self.voice, begun, step, pause)
        segment.texts += speech.progress(self.voice, plan, block)
        for trouble in self.troubles:
            segment.texts += trouble.lines(block, self.voice)

    def _settle_saves(self, segment: Segment) -> None:
        """Saves that have become durable by the end of a segment."""
        done = [save for save in self._saves_pending if save[0] <= segment.end]
        self._saves_pending = [save for save in self._saves_pending if save[0] > segment.end]
        for instant, step in done:
            self._saved = max(self._saved, step + 1)
            if self.plan.telemetry.announced:
                segment.signals.append(Checkpoint(self.voice.at(instant), segment.attempt, 0, step, durable=True))
