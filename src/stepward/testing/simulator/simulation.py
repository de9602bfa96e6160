"""One simulated run: what is heard of it in order of time, and what is true."""

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from stepward.detect.signals import Signal
from stepward.testing.simulator.course import Course
from stepward.testing.simulator.folder import write
from stepward.testing.simulator.plan import Plan
from stepward.testing.simulator.telling import Telling
from stepward.testing.simulator.traces import Traces, traced
from stepward.testing.simulator.trouble import Trouble
from stepward.testing.simulator.truth import Fault
from stepward.testing.simulator.voice import Text

Item = Signal | Text
_TIME = itemgetter(0)


class Placed(NamedTuple):
    """A trouble of a run: its number there, its kind, and what is not drawn of it."""

    number: int
    kind: type[Trouble]
    magnitude: float | None = None
    step: int | None = None


class Simulation:
    """A run that can be listened to any number of times; it is always the same.

    Attributes:
        plan: what kind of run it is.
        kinds: names of its faults, none for a clean run.
    """

    def __init__(self, plan: Plan, placed: Sequence[Placed]) -> None:
        self.plan, self.placed = plan, list(placed)
        self.kinds = [one.kind.kind for one in placed if not one.kind.benign]

    def course(self) -> tuple[Course, list[Trouble]]:
        """A new course through the plan, with its troubles."""
        troubles = [one.kind(self.plan, one.number, magnitude=one.magnitude, step=one.step) for one in self.placed]
        return Course(self.plan, troubles), troubles

    def items(self) -> Iterator[Item]:
        """Signals and lines, in order of time."""
        course, troubles = self.course()
        telling = Telling(self.plan, troubles, course.voice)
        waiting: list[Item] = []
        for segment in course.segments():
            begin = course.voice.at(segment.begin)
            waiting.sort(key=_TIME)
            ready = bisect_left(waiting, begin, key=_TIME)
            yield from waiting[:ready]
            del waiting[:ready]
            waiting += segment.texts
            waiting.extend(telling.signals(segment))
        waiting.sort(key=_TIME)
        yield from waiting

    def signals(self) -> Iterator[Signal]:
        """Signals alone, in order of time."""
        return (item for item in self.items() if not isinstance(item, Text))

    def texts(self) -> list[Text]:
        """Lines alone, in order of time."""
        course, _ = self.course()
        found = [text for segment in course.segments() for text in segment.texts]
        return sorted(found, key=_TIME)

    def faults(self) -> list[Fault]:
        """The truth, without what it takes two runs to know (``truths``)."""
        course, troubles = self.course()
        for _ in course.segments():
            pass
        return [fault for trouble in troubles if (fault := trouble.fault(course.voice)) is not None]

    def truths(self) -> list[Fault]:
        """The truth with the signals that show each fault; it takes a run without each."""
        course, troubles = self.course()
        ends = [segment.end for segment in course.segments()]
        found = []
        for trouble in troubles:
            fault = trouble.fault(course.voice)
            if fault is not None:
                other = self.without(trouble.index)
                window = fault.t0, fault.t1 or course.voice.at(ends[-1])
                changes = Traces(self.items(), *window).changes(Traces(other.items(), *window))
                found.append(traced(fault, changes, self._struck(fault)))
        return found

    def _struck(self, fault: Fault) -> set[Hashable]:
        layout = self.plan.layout
        struck: set[Hashable] = set(fault.ranks)
        for rank in fault.ranks:
            struck.add((layout.node_of(rank), rank % layout.per_node))
        return struck | {(node, None) for node in fault.nodes}

    def write(self, folder: str, *, metrics: bool = True) -> list[Fault]:
        """Write the run as a folder that ``stepward diagnose`` reads, with the truth in a hidden file."""
        return write(self, folder, metrics=metrics)

    def without(self, number: int) -> "Simulation":
        """The same run without the trouble of that number."""
        return Simulation(self.plan, [one for one in self.placed if one.number != number])
