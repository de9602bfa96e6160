"""Text of others, made fit for a terminal: nothing that a run's name or a log line holds may steer it.

Whatever came from a server, a log or a file passes ``safe`` (or ``plain`` for output that was meant for a terminal)
before it is printed. Widths are counted in terminal cells, so that wide characters and emoji keep tables straight.
"""

import re

_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: cursor, colours, title, clipboard
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the direction of writing, and so what a line says
    "\u2028\u2029\ufeff\ud800-\udfff]"
)
_SEQUENCE = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    "|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?"  # OSC, DCS and other strings: title, links, clipboard
    "|\x1b[ -/]*[0-~]"
)
_TAB = 8


def safe(text: str) -> str:
    """``text`` on one line, with whatever could steer a terminal written as an escape (``\\x1b``, ``\\n``)."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def plain(line: str) -> str:
    """A line of output as a terminal would have left it: no colours, the last state of a progress bar, tabs spread."""
    line = _SEQUENCE.sub("", line).rstrip("\r\n")
    return safe(line.rpartition("\r")[2].expandtabs(_TAB))


def json_text(document: bytes) -> bytes:
    """JSON with the steering characters that JSON itself lets through (C1, direction marks) written as escapes."""
    text = document.decode()
    return _STEERING.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text).encode()


def cells(text: str) -> int:
    """Width of ``text`` in terminal cells."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def pad(text: str, width: int, *, right: bool = False) -> str:
    """``text`` filled with spaces to ``width`` cells; ``right`` aligns it to the right."""
    fill = " " * (width - cells(text))
    return fill + text if right else text + fill


def cut_middle(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells: the middle of a longer one becomes ``…``, as both ends tell names apart."""
    if cells(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    from rich.cells import split_graphemes

    spans, _ = split_graphemes(text)
    head, tail = _fitting(spans, (width - 1) - (width - 1) // 2), _fitting(spans[::-1], (width - 1) // 2)
    start = spans[head - 1][1] if head else 0
    end = spans[-tail][0] if tail else len(text)
    return f"{text[:start]}…{text[end:]}"


def _fitting(spans: list[tuple[int, int, int]], width: int) -> int:
    """How many of the graphemes (start, end, cells) fit into ``width`` cells."""
    count = 0
    for _, _, size in spans:
        width -= size
        if width < 0:
            break
        count += 1
    return count
