"""A journal in a small spool, and a server that keeps the rule of docs/wire.md in memory."""

import struct
from collections import Counter

import msgspec
import pytest

from stepward.client.transport import Response
from stepward.errors import Unavailable
from stepward.model import frames
from stepward.model.frames import Events, Points, Source, Steps
from stepward.model.identity import ulid
from stepward.model.words import SourceKind
from stepward.spool import journal as journal_module
from stepward.spool.journal import Journal, WriterMeta

RUN = "run_" + "a" * 26


class ModelServer:
    """Commits frames as the server does: a frame is whole and begins where the last one ended, or nothing happens.

    ``faults`` is consulted before each request: "lost" (nothing arrives), "deaf" (committed, the answer is lost),
    "garbage" (committed, the answer is noise), a ``Response`` (given as it is), or None.
    """

    def __init__(self, faults=lambda: None):
        self.faults = faults
        self.position: dict[str, int] = {}
        self.dictionary: dict[tuple[str, int], tuple] = {}
        self.rows: list[tuple] = []
        self.steps: list[tuple] = []
        self.payloads: list[tuple] = []
        self.frames = 0

    def request(self, method, path, *, body, headers, timeout_s):
        fault = self.faults()
        if isinstance(fault, Response):
            return fault
        if fault == "lost":
            raise Unavailable("away", code="server_unreachable")
        answer = self._ingest(frames.decode(body), "Stepward-Accept-Gap" in headers)
        if fault == "deaf":
            raise Unavailable("silent", code="server_silent")
        return Response(200, {}, b"<html>") if fault == "garbage" else answer

    def close(self):
        pass

    def _ingest(self, frame, allow_gap):
        expected = self.position.get(frame.writer, 0)
        if frame.end <= expected:
            return _json(200, {"end": expected, "server_time": 0})
        if frame.seq != expected and not (allow_gap and frame.seq > expected):
            return _json(409, {"code": "sequence_gap", "expected_seq": expected})
        contents = [(part.kind, frames.payload(part)) for part in frame.parts]
        definitions = dict(self.dictionary)
        for _, content in contents:
            if isinstance(content, Points):
                definitions.update({(frame.writer, d.id): (d.metric, d.unit, d.device) for d in content.defs})
                if any((frame.writer, number) not in definitions for b in content.blocks for number in b.series):
                    return _json(409, {"code": "need_dictionary"})
        self.dictionary = definitions
        for kind, content in contents:
            self._keep(frame.writer, kind, content)
        self.position[frame.writer] = frame.end
        self.frames += 1
        return _json(200, {"end": frame.end, "server_time": 0})

    def _keep(self, writer, kind, content):
        if isinstance(content, Points):
            for block in content.blocks:
                names = tuple(self.dictionary[writer, number] for number in block.series)
                for n, (step, time) in enumerate(zip(_ints(block.steps), _ints(block.times), strict=True)):
                    width = len(names)
                    values = block.values[8 * n * width : 8 * (n + 1) * width]
                    marks = tuple(r - n * width for r in block.rounded if n * width <= r < (n + 1) * width)
                    self.rows.append((names, step, time, values, marks))
        elif isinstance(content, Steps):
            width = len(content.phases)
            for n, step in enumerate(_ints(content.steps)):
                seconds = struct.unpack_from(f"<{width}d", content.seconds, 8 * n * width)
                known = {(c.name, c.clock): s for c, s in zip(content.phases, seconds, strict=True) if s == s}
                duration = struct.unpack_from("<d", content.durations, 8 * n)[0]
                self.steps.append((step, _ints(content.starts)[n], duration, tuple(sorted(known.items()))))
        elif isinstance(content, Events):
            self.payloads.extend((kind, event) for event in content.events)
        else:
            self.payloads.append((kind, content))

    @property
    def counted(self):
        return Counter(self.rows)


def _json(status, content):
    return Response(status, {}, msgspec.json.encode(content))


def _ints(column):
    return struct.unpack(f"<{len(column) // 8}q", column)


@pytest.fixture
def model_server():
    return ModelServer


@pytest.fixture
def small_segments(monkeypatch):
    monkeypatch.setattr(journal_module, "_FIRST_SEGMENT_BYTES", 4096)
    monkeypatch.setattr(journal_module, "SEGMENT_BYTES", 8192)
    monkeypatch.setattr(journal_module, "_LEAST_SEGMENT_BYTES", 4096)
    monkeypatch.setattr(journal_module, "_LAST_WORDS_BYTES", 1024)
    monkeypatch.setattr(journal_module, "_RETRY_S", 0.0)


@pytest.fixture
def create(tmp_path):
    """Makes journals in the test's spool; closes them at the end."""
    made = []

    def make(root=None, run=RUN, **keywords):
        source = Source(kind=SourceKind.RANK, attempt="a", rank=0)
        meta = WriterMeta(project="p", run=run, writer=ulid(), source=source, created_at=1)
        made.append(Journal.create(str(root or tmp_path / "spool"), meta, **keywords))
        return made[-1]

    yield make
    for journal in made:
        journal.close()
