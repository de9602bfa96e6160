"""The catalog's format: migrations make what the schema says, and older catalogs are copied before they change."""

import os
import shutil
import sqlite3

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from stepward.errors import IncompatibleVersion, Unavailable
from stepward.model.filters import parse
from stepward.store.catalog import migrating, open_database, schema
from stepward.store.catalog.filtering import condition
from stepward.store.catalog.paging import Order


def test_migrations_lead_to_the_schema(tmp_path):
    database = open_database(str(tmp_path / "catalog.db"))
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
        made = {row[0]: row[1] for row in connection.exec_driver_sql("SELECT name, sql FROM sqlite_master")}
    for table in ("latest", "config_leaves", "tags"):
        assert "WITHOUT ROWID" in made[table]
    assert {index.name for table in schema.metadata.tables.values() for index in table.indexes} <= set(made)
    database.close()


def test_an_older_catalog_is_copied_then_migrated(tmp_path, monkeypatch):
    path = str(tmp_path / "catalog.db")
    # The next version of stepward: the shipped migrations and one more.
    scripts = tmp_path / "migrations"
    shutil.copytree(os.path.dirname(migrating.__file__) + "/migrations", scripts)
    open_database(path).close()
    head = migrating.newest_revision()
    (scripts / "versions" / "v9999.py").write_text(
        f"from alembic import op\n\nrevision = '9999'\ndown_revision = '{head}'\n\n"
        "def upgrade():\n    op.execute('CREATE TABLE newer (x INTEGER)')\n"
    )
    config = migrating._config()
    config.set_main_option("script_location", str(scripts))
    monkeypatch.setattr(migrating, "_config", lambda: config)
    database = open_database(path)
    with database.read() as connection:
        assert sa.inspect(connection).has_table("newer")
    database.close()
    with sqlite3.connect(f"{path}.before-9999") as copy:
        assert copy.execute("SELECT count(*) FROM sqlite_master WHERE name = 'newer'").fetchone() == (0,)
    copy.close()


@pytest.mark.parametrize(
    ("content", "code"), [(b"x" * 5000, "catalog_corrupt"), (b"SQLite format 3\0", "catalog_corrupt")]
)
def test_what_is_no_catalog_is_left_alone(tmp_path, content, code):
    path = tmp_path / "catalog.db"
    path.write_bytes(content)
    with pytest.raises(Unavailable) as caught:
        open_database(str(path))
    assert caught.value.code == code and path.read_bytes() == content


def test_a_newer_catalog_is_left_alone(tmp_path):
    path = tmp_path / "catalog.db"
    open_database(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(IncompatibleVersion, match="newer"):
        open_database(str(path))
    assert path.read_bytes() == before and sorted(os.listdir(tmp_path)) == ["catalog.db"]


def test_the_sql_is_postgresqls_too():
    dialect = postgresql.dialect()
    for table in schema.metadata.sorted_tables:
        assert "WITHOUT" not in str(CreateTable(table).compile(dialect=dialect))
        for index in table.indexes:
            CreateIndex(index).compile(dialect=dialect)
    where = condition(parse("metric.loss < 1 config.a:b tag:x NOT name:y started_at > 2026-01-01 OR step = 1"))
    for sort in ("-started_at", "metric.loss", "-config.lr", "ended_at"):
        for query in Order(sort).queries(where, None):
            assert "SELECT" in str(query.compile(dialect=dialect))
