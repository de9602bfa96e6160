"""Node lists and durations as Slurm writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.model.slurm_text import MAX_NODES, duration_s, expand_nodes, fold_nodes


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[0-3,7],x1", ["n0", "n1", "n2", "n3", "n7", "x1"]),
        ("gpu-[08-11]", ["gpu-08", "gpu-09", "gpu-10", "gpu-11"]),
        ("r[1-2]n[01-02]-ib", ["r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib"]),
        ("(null)", []),
        ("None assigned", []),
        ("", []),
    ],
)
def test_a_list_stands_for_its_names(text, names):
    assert expand_nodes(text) == names


@pytest.mark.parametrize(
    "text", ["n[", "n[3-1]", "n[a]", "n]", "n[1-2", ",", "n[0-99999999]", "a[0-300]b[0-300],", "n[]"]
)
def test_what_is_no_list_is_refused(text):
    with pytest.raises(ValueError, match=r"nodes|numbers"):
        expand_nodes(text)


def test_a_list_of_too_many_is_refused_before_it_is_built():
    with pytest.raises(ValueError, match=str(MAX_NODES)):
        expand_nodes("a[0-999]b[0-999]c[0-999]")


names = st.from_regex(r"[a-z][a-z-]{0,5}[0-9]{0,4}(-[a-z]{1,3})?", fullmatch=True)


@given(st.lists(names, max_size=60))
def test_folding_keeps_exactly_the_names(given_names):
    folded = fold_nodes(given_names)
    assert sorted(expand_nodes(folded)) == sorted(set(given_names))
    assert fold_nodes(expand_nodes(folded)) == folded


@given(st.integers(0, 2000), st.integers(0, 200), st.integers(1, 5))
def test_a_range_folds_to_one_bracket_where_its_width_stays(first, more, width):
    every = [f"n{number:0{width}d}" for number in range(first, first + more + 1)]
    assert set(expand_nodes(fold_nodes(every))) == set(every)


@given(st.text(max_size=40))
def test_any_text_is_a_list_or_is_refused(text):
    try:
        found = expand_nodes(text)
    except ValueError:
        return
    assert all(found) and len(found) <= MAX_NODES


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400), ("1:30", 90), ("2:00:00", 7200), ("1-12", 129_600), ("1-00:30", 88_200), ("7-00:00:00", 604_800),
        ("UNLIMITED", float("inf")), ("infinite", float("inf")), ("00:00:01.250", 1), ("", None), ("NOT_SET", None),
        ("Partition_Limit", None), ("1-", None), ("-1", None), ("1:2:3:4", None),
    ],
)  # fmt: skip
def test_durations(text, seconds):
    assert duration_s(text) == seconds
