"""A writer for tests: real frames over the real ingest route, from one source of one attempt."""

import array
import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence

from stepward.model import frames, identity
from stepward.model.states import Exit, Witness
from stepward.model.words import SourceKind

BYTES_A_FRAME = 64


class Writer:
    """Sends frames as one source. Positions only have to be gapless, so each frame takes a fixed stretch."""

    def __init__(
        self,
        url: str,
        token: str,
        run: str,
        *,
        project: str = "default",
        attempt: str = "first",
        rank: int | None = 0,
        kind: SourceKind = SourceKind.RANK,
        node: str = "n01",
    ) -> None:
        self.url, self.token, self.project = url, token, project
        self.run = identity.run_id(project, run)
        self.source = frames.Source(kind=kind, attempt=attempt, rank=rank, node=node, pid=4000 + (rank or 0))
        self.writer = identity.ulid()
        self.position = 0
        self.defined: dict[tuple[str, str, int | None], int] = {}
        self.offsets: dict[str, int] = {}

    def send(self, *parts: frames.Part) -> None:
        """Send one frame and wait for its acknowledgement."""
        end = self.position + BYTES_A_FRAME
        frame = frames.Frame(
            project=self.project,
            run=self.run,
            writer=self.writer,
            seq=self.position,
            end=end,
            sent_at=now_us(),
            source=self.source,
            parts=list(parts),
        )
        request = urllib.request.Request(
            f"{self.url}/api/v1/ingest",
            data=frames.encode(frame),
            headers={"Content-Type": "application/vnd.stepward.frame", "Authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["end"] == end
        self.position = end

    def config(self, name: str, **more: object) -> None:
        """Say what the run is."""
        self.send(frames.part("config", frames.Config(name=name, **{"started_at": now_us(), **more})))

    def beat(self, step: int | None = None, **more: object) -> None:
        """A heartbeat."""
        at = now_us()
        self.send(frames.part("status", frames.Status(at=at, step=step, progress_at=at, **more)))

    def points(
        self,
        values: Mapping[str, Sequence[float]],
        *,
        first: int = 0,
        every: int = 1,
        unit: str = "",
        device: int | None = None,
        started_us: int | None = None,
        also: Sequence[frames.Part] = (),
    ) -> None:
        """Columns of points at steps ``first, first + every, ...``, a second apart, ending now unless told."""
        rows = len(next(iter(values.values())))
        keys = [(metric, unit, device) for metric in values]
        new = [key for key in keys if key not in self.defined]
        for key in new:
            self.defined[key] = len(self.defined)
        begin = now_us() - rows * 1_000_000 if started_us is None else started_us
        block = frames.Block(
            series=[self.defined[key] for key in keys],
            steps=array.array("q", [first + i * every for i in range(rows)]).tobytes(),
            times=array.array("q", [begin + i * 1_000_000 for i in range(rows)]).tobytes(),
            values=array.array("d", [column[i] for i in range(rows) for column in values.values()]).tobytes(),
        )
        defs = [frames.SeriesDef(self.defined[key], *key) for key in new]
        self.send(*also, frames.part("points", frames.Points(defs=defs, blocks=[block])))

    def output(self, text: str, stream: str = "stdout") -> None:
        """Bytes of an output stream."""
        data, offset = text.encode(), self.offsets.get(stream, 0)
        chunk = frames.LogChunk(stream, offset, data, [(0, now_us())], rank=self.source.rank)
        self.offsets[stream] = offset + len(data)
        self.send(frames.part("logs", frames.Logs(chunks=[chunk])))

    @contextlib.contextmanager
    def living(self) -> Iterator[None]:
        """Beat in the background: without, the run is lost after its lease, while a busy machine still draws it."""
        over = threading.Event()

        def go_on() -> None:
            while not over.wait(2.0):
                self.beat()

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def exit(self, **more: object) -> None:
        """How it ended, as the reaper saw it."""
        self.send(frames.part("exit", Exit(**{"at": now_us(), "by": Witness.REAPER, **more})))


def now_us() -> int:
    return time.time_ns() // 1000
