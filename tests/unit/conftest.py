"""A server that answers as it was recorded, without a socket: for the tests of ``client`` and ``cli``."""

import json

import pytest

from stepward.client.api import Client
from stepward.client.transport import Response
from stepward.model.resources import instant

T0 = 1_800_000_000_000_000


class Recorded:
    """Takes the place of ``Transport``: (method, path with or without query) -> (status, JSON or bytes, headers)."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    def request(self, method, path, *, body=None, headers=None, timeout_s=0):
        self.asked.append((method, path, body))
        answer = self.answers.get((method, path), self.answers.get((method, path.partition("?")[0])))
        if isinstance(answer, Exception):
            raise answer
        status, content, *more = answer or (404, {"code": "no_such_run", "detail": f"nothing at {path}"})
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        return Response(status, more[0] if more else {}, data)


@pytest.fixture
def recorded():
    """Make a client of recorded answers."""

    def make(answers):
        client = Client("http://recorded", "token")
        client._transport = Recorded(answers)
        return client

    return make


@pytest.fixture
def run_json():
    """Make a run as the API gives it."""

    def make(**other):
        return {
            "id": "run_01k0000000aaaaaaaaaaaaaaaa",
            "name": "pretrain",
            "project": "llm",
            "kind": "training",
            "state": "running",
            "attempts": [
                {"key": "a", "number": 1, "state": "preempted", "signal": "SIGTERM", "nodes": ["n1"], "ranks": 2},
                {"key": "b", "number": 2, "state": "running", "nodes": ["n1", "n2"], "ranks": 2, "last_step": 7},
            ],
            "latest": {"loss": {"step": 7, "value": 0.25}, "bad": {"step": 3, "value": "NaN"}},
            "tags": ["a"],
            "created_at": instant(T0),
            "started_at": instant(T0),
            "step": 7,
            **other,
        }

    return make
