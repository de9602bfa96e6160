"""The end of an output file: exactly its last lines, and how much is before them."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.errors import NotFound, PermissionDenied
from stepward.orchestrators.slurm import output
from stepward.orchestrators.slurm.output import tail


@given(data=st.binary(max_size=300), count=st.integers(1, 20), most=st.integers(1, 400))
def test_lines_and_what_is_skipped_make_the_file(tmp_path_factory, data, count, most):
    path = tmp_path_factory.getbasetemp() / "out"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "MAX_BYTES", most)
        found = tail(str(path), os.getuid(), count)
    assert 0 <= found.skipped_bytes <= len(data)
    rest = data[found.skipped_bytes :].splitlines(keepends=True)
    assert found.lines == [line.rstrip(b"\r\n") for line in rest]
    assert len(found.lines) <= count
    if data and most >= len(data):
        assert found.lines == [line.rstrip(b"\r\n") for line in data.splitlines(keepends=True)[-count:]]


def test_a_path_that_is_not_the_jobs_own_is_refused(tmp_path):
    own = tmp_path / "own"
    own.write_text("x\n")
    (tmp_path / "link").symlink_to(own)
    os.mkfifo(tmp_path / "pipe")
    for name, uid in (("link", os.getuid()), ("pipe", os.getuid()), ("own", os.getuid() + 1), ("own", None)):
        with pytest.raises(PermissionDenied) as caught:
            tail(str(tmp_path / name), uid, 5)
        assert caught.value.code == "output_refused"
    for path in (str(tmp_path / "none"), "", "relative"):
        with pytest.raises(NotFound) as missing:
            tail(path, os.getuid(), 5)
        assert missing.value.code == "no_output"
    with pytest.raises(PermissionDenied):
        tail(str(tmp_path), os.getuid(), 5)
