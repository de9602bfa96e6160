"""The server's clockwork: every second it judges live runs by their silence, every minute it writes down token use."""

import asyncio
import logging

from stepward.api.parts import Parts
from stepward.errors import StepwardError

TICK_S = 1.0
HOUSEKEEPING_TICKS = 60
_log = logging.getLogger("stepward.server")


async def tick_forever(parts: Parts) -> None:
    """Run until cancelled; an error of the store is logged and tried again a second later."""
    ticks = 0
    while True:
        await asyncio.sleep(TICK_S)
        ticks += 1
        parts.hearing.tick(parts.clock(), waiting_since=parts.waiting.since())
        try:
            await asyncio.to_thread(parts.runs.judge_live)
            if ticks % HOUSEKEEPING_TICKS == 0:
                await asyncio.to_thread(parts.access.remember_use)
        except StepwardError as error:
            _log.warning("%s", error)
