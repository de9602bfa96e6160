"""Which signatures a line matches: one automaton over all literals first, then the few regexes that it leaves.

The verdict of a line's template (its numbers made alike) is cached, as logs say the same again and again; signatures in
which digits matter are asked each time. One matcher serves one diagnosis; it is not shared between threads.
"""

from collections import defaultdict

from ahocorasick_rs import BytesAhoCorasick

from stepward.diagnose.signatures import Signature

CACHED = 20_000
"""Templates kept; then the cache starts again."""
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
MARKERS = ("root cause (first", "exitcode", "exit code", "exited with", "return code", "restart", "(pdb")
"""What readers, not signatures, look for: lines with one are kept as well when a long log is skimmed."""

_MARKERS = tuple(marker.encode() for marker in MARKERS)


def template(line: bytes) -> bytes:
    """A line with its digits made alike: what a program prints again and again with other numbers."""
    return line.translate(_DIGITS)


class Matcher:
    """Signatures behind their prefilter."""

    def __init__(self, signatures: tuple[Signature, ...]) -> None:
        owners: dict[str, list[int]] = defaultdict(list)
        for index, signature in enumerate(signatures):
            for literal in signature.literals:
                owners[literal].append(index)
        self._signatures = signatures
        self._literals = list(owners)
        self._owners = [owners[literal] for literal in self._literals]
        self._automaton = BytesAhoCorasick([literal.encode() for literal in self._literals])
        self._skimmer = BytesAhoCorasick([literal.encode() for literal in {*self._literals, *MARKERS}])
        self._verdicts: dict[bytes, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._matters: dict[bytes, bool] = {}

    def hits(self, chunk: bytes) -> list[int]:
        """Where a chunk of a log holds a literal at all, ascending."""
        return [start for _, start, _ in self._skimmer.find_matches_as_indexes(chunk.lower())]

    def matters(self, shape: bytes, line: bytes) -> bool:
        """Whether a line of this template may matter to a signature or reader; decided once a template."""
        known = self._matters.get(shape)
        if known is None:
            text, low = line.decode("utf-8", "replace"), line.lower()
            indexes = self._candidates(low)
            known = any(self._digits(index) or self._matches(index, text) for index in indexes)
            known = known or any(marker in low for marker in _MARKERS)
            if len(self._matters) >= CACHED:
                self._matters.clear()
            self._matters[shape] = known
        return known

    def signatures(self, line: str) -> list[Signature]:
        """Signatures that match a line, in the order of the catalogue."""
        data = line.encode("utf-8", "surrogatepass")
        shape = template(data)
        known = self._verdicts.get(shape)
        if known is None:
            candidates = sorted(self._candidates(data.lower()))
            steady = [index for index in candidates if not self._digits(index) and self._matches(index, line)]
            known = (tuple(steady), tuple(index for index in candidates if self._digits(index)))
            if len(self._verdicts) >= CACHED:
                self._verdicts.clear()
            self._verdicts[shape] = known
        steady_ones, asked = known
        matched = [
            self._signatures[index]
            for index in sorted({*steady_ones, *(one for one in asked if self._matches(one, line))})
        ]
        return [one for one in matched if one.only] or matched

    def _candidates(self, data: bytes) -> set[int]:
        found = self._automaton.find_matches_as_indexes(data, overlapping=True)
        return {owner for literal in {one[0] for one in found} for owner in self._owners[literal]}

    def _digits(self, index: int) -> bool:
        return self._signatures[index].digits_matter

    def _matches(self, index: int, line: str) -> bool:
        return self._signatures[index].pattern.search(line) is not None
