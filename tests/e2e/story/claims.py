"""What the story claims, each with what was found; a claim that does not hold is remembered, and the story goes on."""

import time
from typing import NamedTuple


class Claim(NamedTuple):
    """One claim; ``seconds`` and ``limit`` are there where it is about time."""

    telling: int
    text: str
    holds: bool
    found: str
    seconds: float | None = None
    limit: float | None = None


class Claims:
    """All claims of a story, printed as they are made."""

    def __init__(self) -> None:
        self.made: list[Claim] = []
        self.telling = 0
        self._began = time.monotonic()

    @property
    def broken(self) -> list[Claim]:
        """Those that do not hold."""
        return [claim for claim in self.made if not claim.holds]

    def say(self, text: str) -> None:
        """Tell what happens."""
        print(f"{time.monotonic() - self._began:7.1f} s  {text}", flush=True)

    def hold(self, text: str, holds: bool, found: object = "") -> None:
        """Claim something."""
        self._add(Claim(self.telling, text, bool(holds), str(found)))

    def within(self, text: str, seconds: float, limit: float | None, what: str = "") -> None:
        """Claim that something took no longer than ``limit``; None only tells how long it took."""
        holds = limit is None or seconds <= limit
        found = f"{seconds:.1f} s" + (f", {what}" if what else "")
        self._add(Claim(self.telling, text, holds, found, round(seconds, 2), limit))

    def summary(self) -> None:
        """Print the intervals over all tellings, and what does not hold."""
        print("\nseconds (least, middle, most):")
        for text in dict.fromkeys(claim.text for claim in self.made if claim.seconds is not None):
            values = sorted(one.seconds for one in self.made if one.text == text and one.seconds is not None)
            limit = next(one.limit for one in self.made if one.text == text)
            allowed = f"  of {limit:g} allowed" if limit is not None else ""
            print(f"  {text}: {values[0]:.1f}, {values[len(values) // 2]:.1f}, {values[-1]:.1f}{allowed}")
        for claim in self.broken:
            print(f"DOES NOT HOLD (telling {claim.telling}): {claim.text}: {claim.found}")
        print(f"{len(self.made) - len(self.broken)} of {len(self.made)} claims hold")

    def _add(self, claim: Claim) -> None:
        self.made.append(claim)
        limit = f" (at most {claim.limit:g} s)" if claim.limit is not None else ""
        mark = "ok   " if claim.holds else "BROKEN"
        self.say(f"{mark} {claim.text}{limit}{': ' if claim.found else ''}{claim.found}")
