"""`millstream query`: SQL over topics, of Millstream or any other Kafka, without a cluster to start.

The dialect is DuckDB's. A table is a topic, in single or double quotes where its name needs them; its columns are `key`, the fields of its
values (or `value`), `topic`, `partition`, `"offset"`, `timestamp`, `timestampType`, `headers`. Formats are looked up in the registry or
guessed from some messages, unless they are named.
"""

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli.output import print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, Registry
from millstream.cli.plain_json import plain_json
from millstream.cli.position import HELP, PositionKind, parse_position
from millstream.cli.properties import parse_assignments
from millstream.cli.record_output import readable
from millstream.errors import UsageError

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


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT of DuckDB's; topics are tables: from 'page-views'.")],
    *,
    brokers: Brokers = DEFAULT_BROKERS,
    output: Annotated[QueryOutput, typer.Option("--output", help="A table, JSON (a list of objects) or CSV.")] = QueryOutput.TABLE,
    registry: Registry = None,
    value_format: Annotated[ValueFormat, typer.Option("--value-format", help="What values are.")] = ValueFormat.AUTO,
    key_format: Annotated[ValueFormat, typer.Option("--key-format", help="What keys are.")] = ValueFormat.AUTO,
    mode: Annotated[MalformedMode, typer.Option("--mode", case_sensitive=False, help="For malformed messages.")] = MalformedMode.FAILFAST,
    start: Annotated[str, typer.Option("--from", metavar="POSITION", help=f"Where to begin in every topic: {HELP}")] = "earliest",
    end: Annotated[str, typer.Option("--to", metavar="POSITION", help="Where to end in every topic; the same forms.")] = "latest",
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Where offsets that were asked for are gone: warn, and read what there is.")
    ] = False,
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
    first, last = _position(start, "--from"), _position(end, "--to")

    def open_scan(topic: str) -> "TopicScan":
        return scan(
            topic,
            brokers=brokers,
            start=first,
            end=last,
            key_format=key_format.value,
            value_format=value_format.value,
            registry=registry,
            mode=mode.value,
            fail_on_data_loss=not allow_data_loss,
            options=options,
        )

    topics = topic_names(brokers, options)
    with TopicQuery(sql, open_scan, topics=topics, brokers=brokers, allow_files=allow_files) as running:
        _WRITERS[output](running.reader.schema.names, running.batches())


def _position(text: str, flag: str) -> "Position":
    found = parse_position(text, flag)
    match found.kind:
        case PositionKind.LAST:
            raise UsageError(f"{flag} {text}: a query counts no messages from the end; give a time, as -24h, or an offset.")
        case PositionKind.OFFSET:
            return found.number
        case PositionKind.TIME:
            return datetime.fromtimestamp(found.number / 1000, UTC)
    return str(found.kind.value)


def _write_table(names: Sequence[str], batches: "Iterable[pa.RecordBatch]") -> None:
    print_table(names, ([_shown(value) for value in row] for row in _rows(batches)))


def _write_json(names: Sequence[str], batches: "Iterable[pa.RecordBatch]") -> None:
    """One list, a row on a line: a document for programs, and lines for people."""
    before, names = "[", _distinct(names)
    for row in _rows(batches):
        document = {name: plain_json(value) for name, value in zip(names, row, strict=True)}
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


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of which none is there twice, as members of an object: `page, page` is `page, page_1`, as DuckDB names columns of a table."""
    found: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" if number else name for number in count())
        found[next(one for one in numbered if one not in found and (one == name or one not in names))] = None
    return list(found)


def _cell(value: Any) -> Any:
    """A value in one cell: nested ones as JSON, null as nothing."""
    plain = plain_json(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, dict | list) else plain


def _shown(value: Any) -> Any:
    """A value in a table for people, with nothing in it that a terminal would obey."""
    cell = _cell(value)
    return cell if isinstance(cell, int | float) else readable(None if cell is None else str(cell).encode())
