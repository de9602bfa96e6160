"""``stepward export``: every point of a run, as the store has it."""

import contextlib
import csv
import os
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import IO, Annotated

import msgspec
import typer

from stepward.cli.connection import RunArgument, connect, find_run
from stepward.cli.text import json_text, safe
from stepward.errors import UsageError
from stepward.model.resources import Number

app = typer.Typer()


class ExportFormat(StrEnum):
    """How points are written."""

    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"


class ExportedPoint(msgspec.Struct):
    """A line of the API's export."""

    metric: str
    attempt: int | str | None
    rank: int | None
    device: int | None
    step: int
    time: str | int | float
    value: Number
    rounded: bool = False


@app.command()
def export(
    run: RunArgument,
    to: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="File instead of stdout.")] = None,
    output: Annotated[
        ExportFormat, typer.Option("--format", help="One JSON object a line, CSV, or Parquet.")
    ] = ExportFormat.NDJSON,
) -> None:
    """Write all points of a run as NDJSON, CSV or Parquet."""
    client = connect()
    if output is ExportFormat.PARQUET:
        from stepward.importers.parquet import write_parquet

        if to is None:
            raise UsageError("a Parquet file needs a name", code="no_output", hint="-o FILE")
        write_parquet(client.export(find_run(client, run).id), to)
        return
    lines = client.export(find_run(client, run).id)
    with _target(to) as file:
        if output is ExportFormat.CSV:
            write_points(lines, file)
        else:
            for line in lines:
                file.write(json_text(line).decode() + "\n")


def write_points(lines: Iterable[bytes], file: IO[str]) -> None:
    """NDJSON of the API as CSV."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(ExportedPoint.__struct_fields__)
    decoder = msgspec.json.Decoder(ExportedPoint)
    for line in lines:
        point = decoder.decode(line)
        writer.writerow((safe(point.metric), *msgspec.structs.astuple(point)[1:]))


@contextlib.contextmanager
def _target(path: str | None) -> Iterator[IO[str]]:
    """stdout, or a file that is there whole or not at all."""
    if path is None:
        yield sys.stdout
        return
    part = f"{path}.part"
    try:
        with open(part, "w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}", code="unwritable_file") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)
