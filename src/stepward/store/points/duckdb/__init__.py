"""The points store on DuckDB: one file a project, one owner process."""

from stepward.store.points.duckdb.store import DuckDBPoints

__all__ = ["DuckDBPoints"]
