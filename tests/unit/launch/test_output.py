"""Chunks of a stream: every byte is in one, or counted."""

import os

from hypothesis import given
from hypothesis import strategies as st

from stepward.launch.output import Positions, StreamLog


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=50), st.booleans()), max_size=30))
def test_what_is_not_kept_is_counted_in_the_next_chunk(reads):
    chunks = []
    verdicts = iter(kept for _, kept in reads)

    def keep(chunk):
        kept = next(verdicts)
        if kept:
            chunks.append(chunk)
        return kept

    log = StreamLog("stdout", 1, keep)
    for at, (data, _) in enumerate(reads):
        log.feed(data, at)
    whole = b"".join(data for data, _ in reads)
    end = 0
    for chunk in chunks:
        assert chunk.offset == end + chunk.lost
        assert chunk.data == whole[chunk.offset : chunk.offset + len(chunk.data)]
        end = chunk.offset + len(chunk.data)
    assert log.offset == len(whole) == end + log.lost


def test_the_heir_sees_where_each_stream_stands():
    descriptor = os.memfd_create("positions")
    os.ftruncate(descriptor, Positions.BYTES)
    ours, theirs = Positions(descriptor), Positions(descriptor)
    log = StreamLog("stdout", None, lambda chunk: False)
    log.feed(b"four", 1)
    ours.write(3, log)
    assert theirs.read(3) == (4, 4)
    assert theirs.read(0) == (0, 0)
    ours.write(10**6, log)
    os.close(descriptor)
