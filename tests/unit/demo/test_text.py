"""The text and its batches."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepward.demo.text import Corpus

CORPUS = Corpus()


def read(rank=0, first_step=0, last_step=4, seed=0):
    return list(
        CORPUS.batches(sequences=3, length=16, first_step=first_step, last_step=last_step, rank=rank, seed=seed)
    )


def test_the_text_is_enough_to_learn_from():
    assert len(CORPUS.tokens) > 80_000
    assert CORPUS.tokens.max() == len(CORPUS.alphabet) - 1


@given(st.integers(0, 50), st.integers(0, 7))
def test_a_resumed_run_reads_on_where_it_was(step, rank):
    whole = read(rank=rank, last_step=step + 2)
    (again, _) = read(rank=rank, first_step=step, last_step=step + 2)
    assert again.step == step
    assert np.array_equal(again.inputs, whole[step].inputs)


def test_targets_are_the_next_characters_and_ranks_read_different_ones():
    mine, theirs = read(rank=0)[0], read(rank=1)[0]
    assert np.array_equal(mine.inputs[:, 1:], mine.targets[:, :-1])
    assert not np.array_equal(mine.inputs, theirs.inputs)
