"""``stepward diff``: what two runs were given that differs, and what came of it."""

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from stepward.cli.connection import RunArgument, connect, find_run
from stepward.cli.figures import figure
from stepward.cli.show import SAMPLED
from stepward.cli.table import Column, Format, FormatOption, show
from stepward.model.resources import Run, RunConfig

app = typer.Typer()

MISSING = "-"


class Difference(NamedTuple):
    """A leaf of the configuration or a metric, as it is in either run; None where a run does not have it."""

    kind: str
    name: str
    first: Any
    second: Any


@app.command()
def diff(
    first: RunArgument,
    second: RunArgument,
    tree: Annotated[
        list[str] | None, typer.Option(help="Only this tree of the configuration: user, software, system; repeatable.")
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Compare two runs: settings that differ, and the latest values side by side."""
    client = connect()
    one, two = find_run(client, first), find_run(client, second)
    rows = [
        *config_differences(client.config(one.id), client.config(two.id), tree or ["user", "software", "system"]),
        *metrics_beside(one, two),
    ]
    columns: list[Column[Difference]] = [
        Column("kind", lambda row: row.kind),
        Column("name", lambda row: row.name, flexible=True),
        Column("first", lambda row: _exact(row.first), lambda row: _shown(row.first), title=one.name, flexible=True),
        Column("second", lambda row: _exact(row.second), lambda row: _shown(row.second), title=two.name, flexible=True),
    ]
    document = {"first": one.id, "second": two.id, "differences": [row._asdict() for row in rows]}
    show(output, columns, rows, document=document, empty="no difference")


def config_differences(one: RunConfig, two: RunConfig, trees: list[str]) -> list[Difference]:
    """Leaves of the trees that are not alike; a leaf is a scalar or an empty tree, a list is taken as a whole."""
    found = []
    for tree in trees:
        left, right = dict(_leaves(getattr(one, tree, {}))), dict(_leaves(getattr(two, tree, {})))
        found += [
            Difference(tree, path, left.get(path), right.get(path))
            for path in sorted(left.keys() | right.keys())
            if _marked(left, path) != _marked(right, path)
        ]
    return found


def metrics_beside(one: Run, two: Run) -> list[Difference]:
    """Latest values that the users logged, where either run has one."""
    names = sorted(name for name in one.latest.keys() | two.latest.keys() if not name.startswith(SAMPLED))
    return [Difference("metric", name, _latest(one, name), _latest(two, name)) for name in names]


def _latest(run: Run, name: str) -> Any:
    return run.latest[name].value if name in run.latest else None


def _leaves(tree: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        place = f"{path}.{key}" if path else str(key)
        if isinstance(value, dict) and value:
            yield from _leaves(value, place)
        else:
            yield place, value


def _marked(leaves: dict[str, Any], path: str) -> str | None:
    """A leaf in a form that tells 1 from true and null from missing."""
    return msgspec.json.encode(leaves[path]).decode() if path in leaves else None


def _exact(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, (dict, list, bool)) else value


def _shown(value: Any) -> str:
    if value is None:
        return MISSING
    return figure(value) if isinstance(value, float) else str(_exact(value))
