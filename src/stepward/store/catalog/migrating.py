"""Opening a catalog of any age: a new one is made, an older one is copied and then migrated, a newer one is left alone.

The version is Alembic's revision; the migrations ship inside the package. Nothing is written to a file whose revision
this version does not know.
"""

import contextlib
import os
import sqlite3
import urllib.parse

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from stepward.errors import IncompatibleVersion, StepwardError, Unavailable
from stepward.store.catalog.database import Database


def open_database(path: str) -> Database:
    """The catalog at ``path``, at this version's format.

    Raises:
        IncompatibleVersion: ``newer_format``; the file is untouched.
        Unavailable: ``catalog_corrupt``; the file is untouched.
    """
    revision, head = _revision(path), newest_revision()
    if revision is not None and revision not in _known_revisions():
        raise IncompatibleVersion(
            f"{path} was written by a newer stepward (format {revision}, this one knows {head})",
            code="newer_format",
            hint="upgrade stepward, or restore a backup of this version",
        )
    if revision is not None and revision != head:
        _copy(path, f"{path}.before-{head}")
    database = Database(path)
    if revision != head:
        _migrate(database)
    with contextlib.suppress(OSError):
        os.chmod(path, 0o600)
    return database


def newest_revision() -> str:
    """The revision that this version writes."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def _known_revisions() -> set[str]:
    return {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "stepward.store.catalog:migrations")
    config.set_main_option("path_separator", "os")
    return config


def _migrate(database: Database) -> None:
    config = _config()
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _revision(path: str) -> str | None:
    """The revision of an existing catalog, read without touching it; None for a file that does not exist."""
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return None
    try:
        with contextlib.closing(sqlite3.connect(_untouched(path), uri=True)) as connection:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.DatabaseError as error:
        raise _corrupt(path, error) from error
    return str(row[0]) if row else None


def _untouched(path: str) -> str:
    """A URI that reads without leaving a trace; with a write-ahead log beside it, that must be read, too."""
    quoted = urllib.parse.quote(path)
    return f"file:{quoted}?mode=ro" + ("" if os.path.exists(f"{path}-wal") else "&immutable=1")


def _corrupt(path: str, error: Exception) -> StepwardError:
    return Unavailable(
        f"{path} is no catalog that can be read: {error}",
        code="catalog_corrupt",
        hint="restore a backup (stepward restore); the points and logs beside it are not affected",
    )


def _copy(path: str, target: str) -> None:
    with (
        contextlib.closing(sqlite3.connect(_untouched(path), uri=True)) as source,
        contextlib.closing(sqlite3.connect(f"{target}.partial")) as copy,
    ):
        source.backup(copy)
    os.replace(f"{target}.partial", target)
