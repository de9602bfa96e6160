"""Tables of a project's points file, and their version.

A series is an integer; its names rest once, in ``series`` and ``sources``. There are no keys and no indexes: one thread
writes, it knows what there is, and readers live off DuckDB's zone maps.
"""

FORMAT = 1
"""Raised with every change of the tables; a file of a higher number is refused untouched."""

CREATE = f"""
CREATE TABLE format (version INTEGER);
INSERT INTO format VALUES ({FORMAT});
CREATE TABLE sources (id INTEGER, run VARCHAR, kind VARCHAR, attempt VARCHAR, rank INTEGER, role VARCHAR, node VARCHAR);
CREATE TABLE series (id INTEGER, source INTEGER, metric VARCHAR, unit VARCHAR, device INTEGER);
CREATE TABLE points (series INTEGER, step BIGINT, time BIGINT, value DOUBLE, rounded BOOLEAN);
CREATE TABLE steps (source INTEGER, step BIGINT, start BIGINT, duration DOUBLE);
CREATE TABLE phase_names (id INTEGER, name VARCHAR, clock VARCHAR);
CREATE TABLE phases (source INTEGER, step BIGINT, start BIGINT, phase INTEGER, seconds DOUBLE);
CREATE TABLE writers (id INTEGER, writer VARCHAR, run VARCHAR, position BIGINT);
CREATE TABLE parts (cursor BIGINT, run VARCHAR, writer VARCHAR, seq BIGINT, received_at BIGINT, source BLOB, kind VARCHAR,
                    payload BLOB);
CREATE TABLE unsettled (cursor BIGINT, run VARCHAR, received_at BIGINT, record BLOB);
"""
