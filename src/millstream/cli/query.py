"""`millstream query`: SQL over topics, of Millstream or any other Kafka, without a cluster to start.

The dialect is DuckDB's. A table is a topic, in single or double quotes where its name needs them; its columns are `key`, the fields of its
values (or `value`), `topic`, `partition`, `"offset"`, `timestamp`, `timestampType`, `headers`. Formats are looked up in the registry or
guessed from some messages, unless they are named.
"""

import csv
import json
import math
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from millstream.cli.output import print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers
from millstream.cli.properties import parse_assignments
from millstream.cli.record_output import json_value, readable

if TYPE_CHECKING:
    import pyarrow as pa

    from millstream.tables.position import Position
    from millstream.tables.topic_scan import TopicScan


class QueryOutput(StrEnum):
    """How the rows are written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class ValueFormat(StrEnum):
    """What keys or values are."""

    AUTO = "auto"
    AVRO = "avro"
    JSON = "json"
    STRING = "string"
    BINARY = "binary"


class MalformedMode(StrEnum):
    """What becomes of messages that are not what their format says."""

    FAILFAST = "FAILFAST"
    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"


Edge = Annotated[str, typer.Option(metavar="earliest|latest|OFFSET|TIME", help="Of every topic; a time as 2026-11-16T08:00.")]


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT of DuckDB's; topics are tables: from 'page-views'.")],
    *,
    brokers: Brokers = DEFAULT_BROKERS,
    output: Annotated[QueryOutput, typer.Option("--output", help="A table, JSON (a list of objects) or CSV.")] = QueryOutput.TABLE,
    registry: Annotated[
        str | None, typer.Option("--registry", metavar="URL[,...]", envvar="MILLSTREAM_REGISTRY", help="Schema registry, for Avro.")
    ] = None,
    value_format: Annotated[ValueFormat, typer.Option("--value-format", help="What values are.")] = ValueFormat.AUTO,
    key_format: Annotated[ValueFormat, typer.Option("--key-format", help="What keys are.")] = ValueFormat.AUTO,
    mode: Annotated[MalformedMode, typer.Option("--mode", case_sensitive=False, help="For malformed messages.")] = MalformedMode.FAILFAST,
    start: Edge = "earliest",
    end: Edge = "latest",
    allow_files: Annotated[bool, typer.Option("--allow-files", help="Let the SQL read and write files and use the network.")] = False,
    client_options: Annotated[
        list[str] | None, typer.Option("-X", metavar="NAME=VALUE", help="An option of the client, e.g. security.protocol; repeatable.")
    ] = None,
) -> None:
    """Ask topics a question in SQL."""
    from millstream.tables.query import TopicQuery, require_query

    require_query()
    from millstream.tables.topic_names import topic_names
    from millstream.tables.topic_scan import scan

    options = parse_assignments(client_options or [])

    def open_scan(topic: str) -> "TopicScan":
        return scan(
            topic,
            brokers=brokers,
            start=_position(start),
            end=_position(end),
            key_format=key_format.value,
            value_format=value_format.value,
            registry=registry,
            mode=mode.value,
            options=options,
        )

    topics = topic_names(brokers, options)
    with TopicQuery(sql, open_scan, topics=topics, brokers=brokers, allow_files=allow_files) as running:
        _WRITERS[output](running.reader.schema.names, running.batches())


def _position(text: str) -> "Position":
    return int(text) if text.isascii() and text.isdecimal() else text


def _write_table(names: Sequence[str], batches: "Iterable[pa.RecordBatch]") -> None:
    print_table(names, ([_shown(value) for value in row] for row in _rows(batches)))


def _write_json(names: Sequence[str], batches: "Iterable[pa.RecordBatch]") -> None:
    """One list, a row on a line: a document for programs, and lines for people."""
    before = "["
    for row in _rows(batches):
        document = {name: _plain(value) for name, value in zip(names, row, strict=True)}
        sys.stdout.write(before + json.dumps(document, ensure_ascii=False))
        before = ",\n"
    sys.stdout.write("]\n" if before != "[" else "[]\n")


def _write_csv(names: Sequence[str], batches: "Iterable[pa.RecordBatch]") -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    for row in _rows(batches):
        writer.writerow([_cell(value) for value in row])


_WRITERS = {QueryOutput.TABLE: _write_table, QueryOutput.JSON: _write_json, QueryOutput.CSV: _write_csv}


def _rows(batches: "Iterable[pa.RecordBatch]") -> Iterable[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _plain(value: Any) -> Any:
    """A value as JSON knows it; bytes as everywhere on the command line."""
    match value:
        case bytes():
            return json_value(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case timedelta() | Decimal() | UUID():
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {str(name): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            return value


def _cell(value: Any) -> Any:
    """A value in one cell: nested ones as JSON, null as nothing."""
    plain = _plain(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, dict | list) else plain


def _shown(value: Any) -> Any:
    """A value in a table for people, with nothing in it that a terminal would obey."""
    cell = _cell(value)
    return cell if isinstance(cell, int | float) else readable(None if cell is None else str(cell).encode())
