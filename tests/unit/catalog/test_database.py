"""What the database itself cannot do, as errors of ours."""

import contextlib

import pytest
import sqlalchemy as sa

from stepward.errors import Unavailable
from stepward.store.catalog import open_database


@pytest.fixture
def database(tmp_path):
    opened = open_database(str(tmp_path / "catalog.db"))
    yield opened
    opened.close()


def test_more_readers_than_connections_are_told_to_come_again(database, monkeypatch):
    monkeypatch.setattr(database.engine.pool, "_timeout", 0.0)
    with contextlib.ExitStack() as readers, pytest.raises(Unavailable) as caught:
        for _ in range(100):
            readers.enter_context(database.read())
    assert caught.value.code == "catalog_unavailable"


@pytest.mark.parametrize("statement", ["SELECT * FROM nowhere", "INSERT INTO projects VALUES (1)", "SELECT ?"])
def test_a_statement_that_fails_is_an_error_of_ours(database, statement):
    with pytest.raises(Unavailable), database.write() as connection:
        connection.exec_driver_sql(statement)
    with database.read() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar_one() == 1
