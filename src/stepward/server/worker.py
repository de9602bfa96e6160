"""The server's clockwork: every second it judges live runs by their silence, every minute it does the housekeeping."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from stepward.api.parts import Parts
from stepward.errors import StepwardError

TICK_S = 1.0
HOUSEKEEPING_TICKS = 60
_log = logging.getLogger("stepward.server")


async def tick_until(
    parts: Parts,
    ended: asyncio.Event,
    *,
    each_second: Sequence[Callable[[], object]],
    each_minute: Sequence[Callable[[], object]],
) -> None:
    """Run until ``ended`` is set, never leaving a piece of work half done; what fails is logged and tried again."""
    ticks = 0
    while not await _set_within(ended, TICK_S):
        ticks += 1
        parts.hearing.tick(parts.clock(), waiting_since=parts.waiting.since())
        for work in [*each_second, *(each_minute if ticks % HOUSEKEEPING_TICKS == 0 else [])]:
            await _tried(work)


async def repeat_until(ended: asyncio.Event, work: Callable[[], object], pause_s: float = TICK_S) -> None:
    """Repeat work that may take long beside the clockwork, until ``ended`` is set; what fails is logged and tried again."""
    while not await _set_within(ended, pause_s):
        await _tried(work)


async def _tried(work: Callable[[], object]) -> None:
    try:
        await asyncio.to_thread(work)
    except StepwardError as error:
        _log.warning("%s", error)
    except Exception:
        # The clockwork must not stop: without it no dead run would ever be called dead.
        _log.exception("%s failed", work)


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
