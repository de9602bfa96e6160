"""Opening what a person points at: files, folders, stdin; plain or packed, in any encoding, of any size.

A source gives chunks of UTF-8 that end at line ends, and remembers what kept it from giving all. It raises nothing: a
file that cannot be read is a source with a ``why``.
"""

import gzip
import io
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import IO, Any, cast

CHUNK = 1 << 20
LONGEST_LINE = 1 << 16
"""Bytes of a line that are kept; the rest of a longer one is skipped and the source marked as truncated."""
MOST_FILES = 10_000
_BOMS = [
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
]
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Source:
    """One input. ``name`` is its path below the one given, ``alone`` if it was given itself."""

    def __init__(self, path: str, name: str, *, alone: bool = False, kind: str | None = None) -> None:
        self.path, self.name, self.alone, self.kind = path, name, alone, kind
        self.encoding = "utf-8"
        self.truncated = False
        self.why: str | None = None
        self.lines = 0
        self.placed = False
        """Whether ``rank`` and ``node`` are known and not to be read from the name."""
        self.rank: int | None = None
        self.node: str | None = None

    def real(self, number: int) -> int:
        """Number in the whole input of the line that is the ``number``-th of what ``chunks`` gives."""
        return number

    def chunks(self) -> Iterator[bytes]:
        """UTF-8 in pieces of about ``CHUNK`` bytes, each of whole lines."""
        try:
            with self._opened() as stream:
                yield from self._whole_lines(stream)
        except (OSError, EOFError, ValueError, ImportError) as error:
            self._stopped(error)
        except Exception as error:  # a decompressor's own errors, which have no common class
            self._stopped(error)

    def _stopped(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        self.why, self.truncated = reason, True

    def _opened(self) -> IO[bytes]:
        if self.path == "-":
            raw: Any = getattr(sys.stdin, "buffer", None) or io.BytesIO(sys.stdin.read().encode())
        elif os.path.exists(self.path) and not os.path.isfile(self.path) and not _is_pipe(self.path):
            raise ValueError("not a regular file")
        else:
            raw = open(self.path, "rb", buffering=CHUNK)  # noqa: SIM115 - closed by the caller's with
        buffered = raw if hasattr(raw, "peek") else io.BufferedReader(raw)
        head = buffered.peek(4)[:4]
        if head.startswith(_GZIP):
            return cast(IO[bytes], gzip.open(buffered))
        if head == _ZSTD:
            return _zstd(buffered)
        return buffered

    def _whole_lines(self, stream: IO[bytes]) -> Iterator[bytes]:
        rest, skipping, first = b"", False, True
        decoder: Any = None
        for given in _pieces(stream):
            data = given
            if first:
                decoder, first = self._decoder(data), False
            if decoder is not None:
                data = decoder.decode(data).encode("utf-8", "surrogatepass")
            if skipping:
                end = data.find(b"\n")
                data, skipping = (b"", True) if end < 0 else (data[end:], False)
            piece = rest + data
            end = piece.rfind(b"\n") + 1
            whole, rest = piece[:end], piece[end:]
            if len(rest) > LONGEST_LINE:
                rest, skipping, self.truncated = rest[:LONGEST_LINE], True, True
            if whole:
                yield whole
        if rest:
            yield rest

    def _decoder(self, head: bytes) -> Any:
        """A decoder to text for anything that is not UTF-8 or ASCII-like already."""
        import codecs

        name = next((encoding for mark, encoding in _BOMS if head.startswith(mark)), None)
        if name is None and b"\x00" in head[:4096]:
            odd, even, half = head[1:4096:2].count(0), head[0:4096:2].count(0), max(1, len(head[:4096]) // 2)
            if odd > 0.3 * half and even < 0.05 * half:
                name = "utf-16-le"
            elif even > 0.3 * half and odd < 0.05 * half:
                name = "utf-16-be"
            else:
                self.encoding = "binary"
                raise ValueError("binary data, no text")
        if name is None:
            return None
        self.encoding = name
        return codecs.getincrementaldecoder(name)("replace")


def _pieces(stream: Any) -> Iterator[bytes]:
    """What a stream gives, in pieces of ``CHUNK`` bytes; of one that is torn, what came before the tear."""
    read = getattr(stream, "read1", stream.read)
    while True:
        parts: list[bytes] = []
        size = 0
        try:
            while size < CHUNK and (data := read(CHUNK - size)):
                parts.append(data)
                size += len(data)
        except Exception:
            if parts:
                yield b"".join(parts)
            raise
        if not parts:
            return
        yield b"".join(parts) if len(parts) > 1 else parts[0]


def _is_pipe(path: str) -> bool:
    import stat

    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def _zstd(stream: Any) -> IO[bytes]:
    """zstd by the standard library (3.14) or the ``zstandard`` package, where one of them is there."""
    try:
        return import_module("compression.zstd").open(stream)  # type: ignore[no-any-return]
    except ImportError:
        pass
    try:
        return import_module("zstandard").ZstdDecompressor().stream_reader(stream)  # type: ignore[no-any-return]
    except ImportError:
        raise ValueError("zstd cannot be unpacked here: pip install zstandard") from None


def discover(paths: list[str]) -> list[Source]:
    """Sources of the given paths: files as they are, folders by walking them; hidden files are left out."""
    found: list[Source] = []
    for path in paths:
        if path != "-" and os.path.isdir(path):
            found += _walk(path)
        else:
            found.append(Source(path, "stdin" if path == "-" else os.path.basename(path), alone=True))
    return found


def _walk(root: str) -> list[Source]:
    found: list[Source] = []
    denied: list[Source] = []

    def refused(error: OSError) -> None:
        source = Source(str(error.filename), os.path.relpath(str(error.filename), root))
        source.why = error.strerror
        denied.append(source)

    for folder, subfolders, names in os.walk(root, onerror=refused):
        subfolders[:] = sorted(one for one in subfolders if not one.startswith("."))
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.startswith(".") and len(found) < MOST_FILES:
                found.append(Source(path, os.path.relpath(path, root)))
    return found + denied
