"""Tables of a project's points file, and their version.

A series is an integer; its names rest once, in ``series`` and ``sources``. There are no keys and no indexes: one thread
writes, it knows what there is, and readers live off DuckDB's zone maps. ``tallies`` and ``step_tallies`` say what each
series has (``tallies.py``). ``layout`` has one row: how many points a rewrite put in order, how many were deleted since.

A value rests in ``single`` where a float32 holds it exactly, else in ``exact``; NaN in neither. Most metrics were float32 once,
and take 2.5 bytes less so.
"""

FORMAT = 3
"""Raised with every change of the tables; a file of a higher number is refused untouched."""

_TALLIES = """
CREATE TABLE tallies (series INTEGER, n BIGINT, first_step BIGINT, last_step BIGINT, first_time BIGINT, last_time BIGINT);
CREATE TABLE step_tallies (source INTEGER, phase INTEGER, n BIGINT, first_step BIGINT, last_step BIGINT, first_time BIGINT,
                           last_time BIGINT);
CREATE TABLE layout (sorted BIGINT, deleted BIGINT);
INSERT INTO layout VALUES (0, 0);
"""

CREATE = f"""
CREATE TABLE format (version INTEGER);
INSERT INTO format VALUES ({FORMAT});
CREATE TABLE sources (id INTEGER, run VARCHAR, kind VARCHAR, attempt VARCHAR, rank INTEGER, role VARCHAR, node VARCHAR);
CREATE TABLE series (id INTEGER, source INTEGER, metric VARCHAR, unit VARCHAR, device INTEGER, rank INTEGER);
CREATE TABLE points (series INTEGER, step BIGINT, time BIGINT, single FLOAT, exact DOUBLE, rounded BOOLEAN);
CREATE TABLE steps (source INTEGER, step BIGINT, start BIGINT, duration DOUBLE);
CREATE TABLE phase_names (id INTEGER, name VARCHAR, clock VARCHAR);
CREATE TABLE phases (source INTEGER, step BIGINT, start BIGINT, phase INTEGER, seconds DOUBLE);
CREATE TABLE writers (id INTEGER, writer VARCHAR, run VARCHAR, position BIGINT);
CREATE TABLE parts (cursor BIGINT, run VARCHAR, writer VARCHAR, seq BIGINT, received_at BIGINT, source BLOB, kind VARCHAR,
                    payload BLOB);
CREATE TABLE unsettled (cursor BIGINT, run VARCHAR, received_at BIGINT, record BLOB);
{_TALLIES}"""

MIGRATIONS = {
    1: f"""
ALTER TABLE series ADD COLUMN rank INTEGER;
{_TALLIES}
INSERT INTO tallies SELECT series, count(*), min(step), max(step), min(time), max(time) FROM points GROUP BY series;
INSERT INTO step_tallies SELECT source, 0, count(*), min(step), max(step), min(start), max(start) FROM steps GROUP BY source;
INSERT INTO step_tallies SELECT source, phase, count(*), min(step), max(step), min(start), max(start)
FROM phases GROUP BY source, phase;
UPDATE format SET version = 2;
""",
    2: """
ALTER TABLE points RENAME TO former;
CREATE TABLE points (series INTEGER, step BIGINT, time BIGINT, single FLOAT, exact DOUBLE, rounded BOOLEAN);
INSERT INTO points SELECT series, step, time, CASE WHEN NOT isnan(value) AND fits THEN TRY_CAST(value AS FLOAT) END,
  CASE WHEN NOT isnan(value) AND NOT fits THEN value END, rounded
FROM (SELECT *, coalesce(TRY_CAST(value AS FLOAT)::DOUBLE = value, FALSE) AS fits FROM former);
DROP TABLE former;
UPDATE format SET version = 3;
""",
}
"""Format -> what makes it the next one, in one transaction."""

VALUE = "coalesce(single::DOUBLE, exact, 'NaN'::DOUBLE)"
POINTS = f"(SELECT series, step, time, {VALUE} AS value, rounded FROM points)"
"""Points with their value in one column."""

WHOLE_STEP = 0
"""Number of the phase that stands for the whole step in ``step_tallies``."""
