"""The suite under pytest: subclass ``GoodputSuite`` in a test module and give it a ledger."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from stepward.testing.goodput.cases import cases, differences
from stepward.testing.goodput.construction import Case, shuffled


class GoodputSuite:
    """Every timeline, as it is and in another order; sums and factors of each answer."""

    def ledger(self, lines: Sequence[bytes]) -> Mapping[str, Any]:
        """The document ``stepward.goodput/1`` of a timeline."""
        raise NotImplementedError

    @pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
    def test_a_timeline_gives_its_truth(self, case: Case) -> None:
        """Every field within 1e-6, bucket by bucket."""
        assert differences(case.truth, self.ledger(case.lines)) == []

    @pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
    def test_order_and_repetition_mean_nothing(self, case: Case) -> None:
        """Shuffled and doubled lines give the same answer."""
        # A rejected line that comes twice is rejected twice, so only what is sound is doubled.
        twice = range(0, len(case.lines), 7) if not case.truth["rejected"] else ()
        assert differences(case.truth, self.ledger(shuffled(case.lines, twice=twice))) == []

    @pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
    def test_buckets_add_up_and_factors_multiply(self, case: Case) -> None:
        """Sums and the identity of the factors."""
        got = self.ledger(case.lines)
        assert abs(sum(got["buckets_s"].values()) - got["wall_s"]) < 1e-5
        assert abs(sum(got["buckets_device_s"].values()) - got["device_s"]) < 1e-4
        factors = [got["scheduling"], got["runtime"], got["program"]]
        if None not in factors:
            assert abs(factors[0] * factors[1] * factors[2] - got["overall"]) < 1e-12
