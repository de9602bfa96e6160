"""A process that logs until it is killed: ``python writer.py SPOOL RUN COUNTER MODE``.

COUNTER is a file of 8 bytes, mapped: the number of rows that ``log`` has returned from. Modes: ``rows``, ``signals`` (a
handler emits an event every millisecond), ``forks`` (a child logs too), ``threads``, ``ship`` (with a shipper).
"""

import mmap
import os
import signal
import sys
import threading
import time

from stepward import settings
from stepward.model.frames import Event, Events, Source
from stepward.model.identity import ulid
from stepward.model.words import SourceKind
from stepward.sdk.recorder import Recorder
from stepward.spool.journal import Journal, WriterMeta
from stepward.spool.shipper import Shipper

spool, run, counter, mode = sys.argv[1:5]
meta = WriterMeta(
    project="p", run=run, writer=ulid(), source=Source(kind=SourceKind.RANK, attempt="a", rank=0), created_at=0
)
journal = Journal.create(spool, meta)
recorder = Recorder(journal)
with open(counter, "r+b") as file:
    accepted = mmap.mmap(file.fileno(), 16)


def count(offset: int, number: int) -> None:
    """One store of eight bytes: ``struct.pack_into`` writes zeros first, which a kill may leave."""
    accepted[offset : offset + 8] = number.to_bytes(8, "little")


def log_for_ever(offset: int) -> None:
    n = 0
    while True:
        recorder.log({"a": float(n), "b": 0.5, **({"c": 1.0} if n % 7 == 0 else {})}, n, time.time_ns() // 1000)
        assert journal.dropped == 0
        n += 1
        if mode == "ship":
            time.sleep(0.001)
        count(offset, n)


def on_signal(number: int, frame: object) -> None:
    event = Event(id=str(time.monotonic_ns()), type="phase", started_at=0)
    assert journal.emit("events", Events([event]))
    count(8, int.from_bytes(accepted[8:16], "little") + 1)


if mode == "signals":
    signal.signal(signal.SIGALRM, on_signal)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
if mode == "ship":
    Shipper(settings.load(), spool, run, journal).start()
print("ready", flush=True)
if mode == "forks":
    recorder.log({"a": 0.0}, -1, 0)
    log_for_ever(0 if os.fork() else 8)
if mode == "threads":
    threading.Thread(target=log_for_ever, args=(8,)).start()
log_for_ever(0)
