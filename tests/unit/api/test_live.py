"""The hub of live updates without a server: merging, bounded queues, the end."""

import asyncio
import json

import msgspec
import pytest

from stepward.api.live import QUEUED, LiveClient, LiveHub
from stepward.errors import Unavailable
from stepward.model.resources import Run
from stepward.model.words import TokenKind
from stepward.store.catalog import Change, Metrics, Principal

EVERYTHING = Principal("t", "n", TokenKind.VIEWER, None)


def run(id):
    return Run(id=id, name=id, project="p", kind="training", state="running", created_at="2026-12-01T00:00:00Z")


async def collect(hub, client, enough, allowed=lambda: True):
    messages = []
    async for message in hub.stream(client, allowed):
        messages.append(message)
        if enough(messages):
            break
    return messages


def data(message):
    return json.loads(message.split(b"data: ")[1])


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr("stepward.api.live.FLUSH_S", 0.0)
    monkeypatch.setattr("stepward.api.live.POINTS_S", 0.0)
    monkeypatch.setattr("stepward.api.live.KEEP_ALIVE_S", 0.01)


def test_changes_are_merged_and_read_once(quick):
    asked = []

    def read(ids, metrics):
        asked.append(list(ids))
        return [run(id) for id in ids]

    async def scenario():
        hub = LiveHub(read, lambda project, id: {"s": 3})
        await hub.start()
        client = LiveClient(EVERYTHING, all_runs=False, runs=frozenset(["a"]))
        reading = asyncio.create_task(collect(hub, client, lambda all: b"logs" in all[-1]))
        await asyncio.sleep(0)
        for step in (3, 9, 5):
            hub._take([Change(project="p", run="a", metrics={f"m{step}"}, step=step, logs=True)])
        hub._take([Change(project="p", run="unwatched")])
        messages = [m for m in await reading if m.startswith(b"event")]
        await hub.stop()
        return messages

    messages = asyncio.run(scenario())
    assert asked == [["a"]]
    told = {update["type"]: update for update in map(data, messages)}
    assert len(told) == len(messages) == 3
    assert told["points"] == {"type": "points", "run": "a", "metrics": ["m3", "m5", "m9"], "step": 9}
    assert told["logs"]["streams"] == {"s": 3}


def test_a_client_that_does_not_keep_up_is_told_to_read_again():
    async def scenario():
        client = LiveClient(EVERYTHING, all_runs=True, runs=frozenset())
        for number in range(QUEUED + 5):
            client.put(b"%d" % number)
        return [client.queue.get_nowait() for _ in range(client.queue.qsize())]

    queued = asyncio.run(scenario())
    assert queued[0].startswith(b"event: resync")
    assert queued[1:] == [b"256", b"257", b"258", b"259", b"260"]


def test_a_stream_ends_when_its_credential_does(quick):
    async def scenario():
        hub = LiveHub(lambda ids, metrics: [], lambda project, id: {})
        client = LiveClient(EVERYTHING, all_runs=True, runs=frozenset())
        return await collect(hub, client, lambda all: False, allowed=lambda: False)

    assert len(asyncio.run(scenario())) == 1


def test_a_stream_that_is_never_idle_ends_with_its_credential_too():
    async def scenario():
        hub = LiveHub(lambda ids, metrics: [], lambda project, id: {})
        client = LiveClient(EVERYTHING, all_runs=True, runs=frozenset())
        for number in range(5):
            client.put(b"%d" % number)
        left = iter([True, True, False])
        return await collect(hub, client, lambda all: len(all) > 3, allowed=lambda: next(left))

    assert asyncio.run(scenario())[1:] == [b"0", b"1"]


@pytest.mark.parametrize("error", [Unavailable("away", code="x"), ZeroDivisionError(), TimeoutError()])
def test_an_update_that_fails_makes_everybody_read_again_and_ends_nothing(quick, error):
    async def scenario():
        faults = [error]
        hub = LiveHub(
            lambda ids, metrics: _raise(faults.pop()) if faults else [run(id) for id in ids], lambda project, id: {}
        )
        await hub.start()
        client = LiveClient(EVERYTHING, all_runs=True, runs=frozenset())
        reading = asyncio.create_task(collect(hub, client, lambda all: b"resync" in all[-1]))
        await asyncio.sleep(0)
        hub._take([Change(project="p", run="a")])
        await reading
        again = asyncio.create_task(collect(hub, client, lambda all: b"event: run" in all[-1]))
        await asyncio.sleep(0)
        hub._take([Change(project="p", run="b")])
        messages = await asyncio.wait_for(again, 10)
        await hub.stop()
        return data(messages[-1])["run"]["id"]

    assert asyncio.run(scenario()) == "b"


def _raise(error):
    raise error


def test_the_hub_ends_all_streams():
    async def scenario():
        hub = LiveHub(lambda ids, metrics: [], lambda project, id: {})
        await hub.start()
        reading = asyncio.create_task(
            collect(hub, LiveClient(EVERYTHING, all_runs=True, runs=frozenset()), lambda all: False)
        )
        await asyncio.sleep(0)
        assert len(hub) == 1
        await hub.stop()
        await reading
        assert len(hub) == 0

    asyncio.run(scenario())


def test_nothing_is_kept_where_nobody_watches():
    hub = LiveHub(lambda ids, metrics: 1 / 0, lambda project, id: {})
    hub.publish([Change(project="p", run="a")])
    assert not hub._points.changes and not hub._rest.changes


def test_each_client_gets_the_newest_values_that_it_asked_for(quick):
    asked = []

    def read(ids, metrics):
        asked.append(metrics)
        return [msgspec.structs.replace(run(id), latest_left_out=len(metrics.patterns or ())) for id in ids]

    async def scenario():
        hub = LiveHub(read, lambda project, id: {})
        await hub.start()
        choices = [Metrics(("a",)), Metrics(("a", "b")), Metrics(("a", "b"))]
        clients = [LiveClient(EVERYTHING, all_runs=True, runs=frozenset(), metrics=one) for one in choices]
        reading = [asyncio.create_task(collect(hub, one, lambda all: b"event: run" in all[-1])) for one in clients]
        await asyncio.sleep(0)
        hub._take([Change(project="p", run="r")])
        told = await asyncio.gather(*reading)
        await hub.stop()
        return [data(messages[-1])["run"]["latest_left_out"] for messages in told]

    assert asyncio.run(scenario()) == [1, 2, 2]
    assert len(asked) == 2
