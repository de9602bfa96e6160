"""What every test gets: folders of its own for everything that stepward would keep in the user's home."""

import os

import hypothesis
import pytest

# No deadlines: no test judges by the clock. Where CI is set the same examples are tried each time, so that a change is
# judged by what it changes; everywhere else new ones are looked for.
hypothesis.settings.register_profile(
    "stepward",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("stepward")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the real spool, configuration or server files, and none inherits a run."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("STEPWARD_DIR", str(home / "spool"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    inherited = [name for name in os.environ if name.startswith("STEPWARD_") and name not in _KEPT]
    for name in inherited:
        monkeypatch.delenv(name)


_KEPT = frozenset({"STEPWARD_DIR", "STEPWARD_TEST_SCALE"})


def _is_full() -> bool:
    return os.environ.get("STEPWARD_TEST_SCALE", "sampled") == "full"


@pytest.fixture(scope="session")
def full_scale() -> bool:
    """Whether this run is ``make test-full`` (STEPWARD_TEST_SCALE=full) rather than the sampled ``make test``."""
    return _is_full()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """At full scale only what does more there: ``make test`` has run all others as they are."""
    if not _is_full():
        return
    scaled = [
        item for item in items if item.get_closest_marker("scaled") or "full_scale" in getattr(item, "fixturenames", ())
    ]
    kept = set(map(id, scaled))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = scaled
