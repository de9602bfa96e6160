"""One moment of this very host."""

from stepward.collect.sampler import Sampler, sample_step


def test_one_broken_reader_leaves_the_others(monkeypatch):
    monkeypatch.setattr("stepward.collect.host.Host.sample", lambda *_: 1 / 0)
    metrics = {reading.metric for reading in Sampler(environ={}).sample()}
    assert "system/process/rss" in metrics
    assert not any(metric.startswith("system/host") for metric in metrics)


def test_this_process_is_watched_when_none_is_named():
    found = {reading.metric: reading.value for reading in Sampler(environ={}).sample()}
    assert found["system/process/rss"] > 1 << 20


def test_steps_go_on_over_attempts():
    assert sample_step(1_700_000_000_000_000) == 170_000_000
    assert sample_step(1_700_000_010_000_000) == 170_000_001
