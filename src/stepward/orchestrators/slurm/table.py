"""Tables of ``squeue``, ``sacct`` and ``sinfo`` whose cells nobody can forge.

Names and comments of jobs are free text: they may hold any separator, and line ends. So each command is told to end every
cell with a mark that nobody can know beforehand, and cells are counted, not lines.
"""

import secrets
from collections.abc import Iterator, Sequence

from stepward.errors import ParseError


def new_mark() -> str:
    """A mark for one command: no comma (it separates ``-O`` fields), no digit first (it would be a width)."""
    return f"\x1f{secrets.token_hex(6)}\x1f"


def squeue_format(fields: Sequence[str], mark: str) -> str:
    """``-O`` of squeue and sinfo: each field whole, whatever its width, ended by the mark."""
    return ",".join(f"{field}:{mark}" for field in fields)


def rows(text: str, fields: Sequence[str], mark: str) -> Iterator[dict[str, str]]:
    """The rows of a table, each by field; Slurm's words for nothing are empty strings.

    Raises:
        ParseError: ``slurm_malformed``: cells are missing or too many.
    """
    *cells, rest = text.split(mark)
    if rest.strip() or len(cells) % len(fields):
        raise ParseError(
            f"a table of Slurm has {len(cells)} cells, no multiple of {len(fields)}",
            code="slurm_malformed",
            hint="is this Slurm older than 20.11? stepward reads squeue -O and sacct -p",
            sample=text[:300],
        )
    for start in range(0, len(cells), len(fields)):
        row = cells[start : start + len(fields)]
        # The line end of the row before is in front of the first cell.
        row[0] = row[0].lstrip("\r\n")
        yield {field: "" if cell in NOTHING else cell for field, cell in zip(fields, row, strict=True)}


NOTHING = frozenset({"(null)", "N/A", "n/a", "None assigned"})
"""What Slurm writes in a cell without a value."""
