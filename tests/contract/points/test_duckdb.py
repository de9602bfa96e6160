"""DuckDB answers as the points protocol demands."""

from stepward.store.points.duckdb import DuckDBPoints
from stepward.store.points.protocol import PointsStore
from stepward.testing.points import PointsStoreSuite


class TestDuckDB(PointsStoreSuite):
    @classmethod
    def open_store(cls, data: str) -> PointsStore:
        return DuckDBPoints(data)
