"""Identities: derived alike everywhere, random ones sort by time and never meet."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.model.identity import RUN_ID, attempt_key, derived_run_id, is_project_name, random_run_id, run_id, ulid


@given(st.text(), st.text())
def test_a_derived_id_has_the_shape_of_a_run_id(project: str, key: str) -> None:
    derived = derived_run_id(project, key)
    assert RUN_ID.fullmatch(derived)
    assert derived == derived_run_id(project, key)


def test_the_derivation_never_changes() -> None:
    """Ranks of different versions must meet in one run: this value is part of the contract."""
    assert derived_run_id("default", "slurm:lab:42") == "run_f5wign6n624tbw5lqqmoi4tul6"


@given(st.text(), st.text(), st.text(), st.text())
def test_project_and_key_do_not_run_together(a: str, b: str, c: str, d: str) -> None:
    if (a, b) != (c, d) and "\0" not in a + b + c + d:
        assert derived_run_id(a, b) != derived_run_id(c, d)


def test_a_run_id_stands_for_itself_and_anything_else_is_a_key() -> None:
    named = random_run_id()
    assert run_id("p", named) == named
    assert run_id("p", "my run") == derived_run_id("p", "my run")


def test_ulids_are_distinct_and_sort_by_time() -> None:
    made = [ulid() for _ in range(2000)]
    assert len(set(made)) == len(made) and {len(one) for one in made} == {26}
    assert [one[:10] for one in made] == sorted(one[:10] for one in made)


@pytest.mark.parametrize(("name", "fits"), [("a" * 200, True), ("a" * 201, False), ("é" * 33, True), ("é" * 34, False)])
def test_a_project_has_room_for_its_folder(name: str, fits: bool) -> None:
    assert is_project_name(name) is fits


@given(st.text(max_size=90))
def test_a_projects_folder_is_named_in_at_most_200_bytes(name: str) -> None:
    assert is_project_name(name) is (0 < len(quote(name, safe="").replace(".", "%2E").replace("~", "%7E")) <= 200)


def test_a_long_attempt_key_is_cut_and_stays_its_own():
    long, other = "a" * 5000 + "x", "a" * 5000 + "y"
    assert attempt_key("slurm/0\0") == "slurm/0\ufffd" and attempt_key("b" * 1024) == "b" * 1024
    assert len(attempt_key(long)) == 1024 and attempt_key(long) != attempt_key(other)
    assert attempt_key(attempt_key(long)) == attempt_key(long)
