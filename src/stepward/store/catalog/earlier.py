"""The pace of earlier runs of the same configuration: what a run that is slow from its first step is held against."""

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from stepward.store.catalog.schema import attempts, configs, runs

MOST = 5
"""Runs that are compared with: the newest ones."""
LOOKED_AT = 50
"""Of the project's runs that finished before, the newest ones are looked through."""
SETTLED_US = 120_000_000
"""A run counts as earlier that ended so long before: by then its pace is known, live as in a later replay."""
UNLIKE = frozenset(
    {"seed", "name", "run_name", "run_id", "tags", "notes", "output_dir", "log_dir", "save_dir", "resume"}
)
"""Settings, by the last part of their name, that do not make another configuration of a run."""


def paces_before(connection: sa.Connection, run: str) -> list[float]:
    """Seconds a step of the newest runs of the same project, kind, configuration, world and hardware that finished before."""
    one = connection.execute(sa.select(runs).where(runs.c.id == run)).mappings().first()
    own = _likeness(connection, [run]).get(run)
    if one is None or own is None:
        return []
    same = (runs.c.project == one["project"], runs.c.kind == one["kind"], runs.c.state == "finished")
    before = (runs.c.usual_step_s.is_not(None), runs.c.ended_at < one["started_at"] - SETTLED_US, runs.c.id != run)
    query = sa.select(runs.c.id, runs.c.usual_step_s).where(*same, *before)
    found = connection.execute(query.order_by(runs.c.started_at.desc(), runs.c.id).limit(LOOKED_AT)).all()
    likeness = _likeness(connection, [row.id for row in found])
    return [row.usual_step_s for row in found if likeness.get(row.id) == own][:MOST]


def _likeness(connection: sa.Connection, wanted: Iterable[str]) -> dict[str, object]:
    """What must be equal, by run; a run without a configuration is like no other."""
    ids = sorted(wanted)
    worlds = sa.select(attempts.c.run, sa.func.max(attempts.c.world)).where(attempts.c.run.in_(ids))
    world = dict(map(tuple, connection.execute(worlds.group_by(attempts.c.run))))
    query = sa.select(configs.c.run, configs.c.user, configs.c.system).where(configs.c.run.in_(ids))
    return {
        row.run: (world.get(row.run), _alike(row.user), _hardware(row.system))
        for row in connection.execute(query)
        if _alike(row.user)
    }


def _alike(tree: Any) -> Any:
    """A configuration without what does not matter."""
    if not isinstance(tree, Mapping):
        return tree
    return {key: _alike(value) for key, value in tree.items() if key.rpartition(".")[2] not in UNLIKE}


def _hardware(system: Mapping[str, Any]) -> list[str]:
    """The devices of each host, or its processor where it has none."""
    found = []
    for host in system.values():
        facts = host if isinstance(host, Mapping) else {}
        names = [str(one.get("name")) for one in facts.get("devices") or () if isinstance(one, Mapping)]
        found.append(", ".join(sorted(names)) or str(facts.get("cpu")))
    return sorted(found)
