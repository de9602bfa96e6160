"""Which signatures a line matches: one automaton over all literals first, then the few regexes that it leaves.

The verdict of a line's template (its digits made alike) is cached, as logs say the same again and again; signatures in
which digits matter are asked each time. One matcher serves one diagnosis; it is not shared between threads.
"""

from collections import defaultdict

from ahocorasick_rs import BytesAhoCorasick

from stepward.diagnose.signatures import Signature

CACHED = 20_000
"""Templates kept; then the cache starts again."""
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
MARKERS = ("root cause (first", "exitcode", "exit code", "exited with", "return code", "restart", "attempt", "(pdb")
"""What readers, not signatures, look for: lines with one are kept as well when a long log is skimmed."""


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
        self._verdicts: dict[bytes, tuple[int, ...]] = {}

    def hits(self, chunk: bytes) -> list[tuple[int, int]]:
        """Where (start, end) a chunk of a log holds a literal at all; not overlapping."""
        return [(start, end) for _, start, end in self._skimmer.find_matches_as_indexes(chunk.lower())]

    def signatures(self, line: str) -> list[Signature]:
        """Signatures that match a line, in the order of the catalogue."""
        data = line.encode("utf-8", "surrogatepass").lower()
        template = data.translate(_DIGITS)
        steady = self._verdicts.get(template)
        candidates = self._candidates(data)
        if steady is None:
            steady = tuple(index for index in candidates if not self._digits(index) and self._matches(index, line))
            if len(self._verdicts) >= CACHED:
                self._verdicts.clear()
            self._verdicts[template] = steady
        changing = [index for index in candidates if self._digits(index) and self._matches(index, line)]
        return [self._signatures[index] for index in sorted({*steady, *changing})]

    def _candidates(self, data: bytes) -> set[int]:
        found = self._automaton.find_matches_as_indexes(data, overlapping=True)
        return {owner for literal in {one[0] for one in found} for owner in self._owners[literal]}

    def _digits(self, index: int) -> bool:
        return self._signatures[index].digits_matter

    def _matches(self, index: int, line: str) -> bool:
        return self._signatures[index].pattern.search(line) is not None
