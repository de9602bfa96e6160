"""Both models learn, and their gradients are those of their losses."""

import numpy as np
import pytest

from stepward.demo.perceptron import Perceptron
from stepward.demo.text import Corpus
from stepward.demo.transformer import Transformer

CORPUS = Corpus()


@pytest.fixture(params=[Perceptron, Transformer])
def model(request, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return request.param(len(CORPUS.alphabet))


def batch_of(model, step=0):
    return next(CORPUS.batches(sequences=4, length=model.length, first_step=step, last_step=step + 1, rank=0, seed=0))


def test_the_gradient_is_the_slope_of_the_loss(model):
    parameters, batch = model.initial(0), batch_of(model)
    _, saved = model.forward(parameters, batch)
    gradient = model.backward(saved)
    direction = gradient / np.linalg.norm(gradient)
    h = np.float32(1e-2)
    up, down = (float(model.forward(parameters + sign * h * direction, batch)[0]) for sign in (1, -1))
    assert (up - down) / (2 * h) == pytest.approx(np.linalg.norm(gradient), rel=0.02)


def test_an_untrained_model_knows_nothing_and_learns(model):
    parameters, batch = model.initial(0), batch_of(model)
    first, _ = model.forward(parameters, batch)
    assert float(first) == pytest.approx(np.log(len(CORPUS.alphabet)), rel=0.2)
    for _ in range(10):
        _, saved = model.forward(parameters, batch)
        gradient = model.backward(saved)
        parameters = parameters - 0.3 * gradient / np.linalg.norm(gradient)
    assert float(model.forward(parameters, batch)[0]) < 0.9 * float(first)


def test_every_rank_begins_alike(model):
    assert np.array_equal(model.initial(7), model.initial(7))
    assert not np.array_equal(model.initial(7), model.initial(8))
