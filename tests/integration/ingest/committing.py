"""A server's data half in a process of its own, fed by eight writers, until it is killed.

    python committing.py DATA SEED [rewriting]

With ``rewriting`` the points file is written anew all the time, and each time says so.
Prints ``<writer> <position>`` for every acknowledgement, after it was given. Byte n of a writer's journal is point n and the
log line ``n``.
"""

import asyncio
import random
import sys
import threading
import time

from stepward.errors import Conflict, StepwardError
from stepward.ingest.ingestor import Ingestor
from stepward.model import frames
from stepward.model.frames import Frame, LogChunk, Logs, Source
from stepward.model.words import SourceKind
from stepward.store.logs import LogStore
from stepward.store.points.duckdb import DuckDBPoints
from stepward.testing.frames import points_part

WRITERS = 8


def line(number: int) -> bytes:
    """The log line of byte ``number``; all are of one length."""
    return b"%09d\n" % number


def cut(writer: int, begin: int, end: int) -> bytes:
    """A frame of a journal."""
    steps = list(range(begin, end))
    chunk = LogChunk("stdout", begin * 10, b"".join(map(line, steps)), [(0, begin)])
    return frames.encode(
        Frame(
            project="p",
            run=f"run_{writer % 2}",
            writer=f"w{writer}",
            seq=begin,
            end=end,
            sent_at=0,
            source=Source(kind=SourceKind.RANK, attempt="a", rank=writer),
            parts=[points_part([("m", None)], steps, steps, steps), frames.part("logs", Logs([chunk]))],
        )
    )


async def ship(ingestor: Ingestor, writer: int, chance: random.Random) -> None:
    """Send for ever, as docs/wire.md says."""
    position = 0
    while True:
        size = chance.choice([1, 10, 100, 2000])
        try:
            position = await ingestor.submit(cut(writer, position, position + size), authorize=lambda _: None)
            print(f"w{writer} {position}", flush=True)
        except Conflict as conflict:
            position = conflict.context["expected_seq"]
        except StepwardError as error:
            print(f"later {error.code}", flush=True)
            await asyncio.sleep(0.05)


def rewrite(points: DuckDBPoints) -> None:
    """For ever."""
    while True:
        print("later rewritten" if points.tidy("p") else "later not_rewritten", flush=True)


async def main(data: str, seed: int, *, rewriting: bool) -> None:
    """Serve until killed."""
    points, logs = DuckDBPoints(data), LogStore(data)
    ingestor = Ingestor(points, [logs], lambda: time.time_ns() // 1000)
    await ingestor.start()
    print("ready", flush=True)
    if rewriting:
        threading.Thread(target=rewrite, args=[points], daemon=True).start()
    await asyncio.gather(*(ship(ingestor, writer, random.Random(seed * 100 + writer)) for writer in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), rewriting="rewriting" in sys.argv))
