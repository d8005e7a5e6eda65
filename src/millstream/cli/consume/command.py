"""`millstream consume`: read records of a topic and write them to stdout.

Joins no group and commits nothing: it assigns itself the partitions. Without `--follow` it reads up to the end as it was at the start, so
it ends even while others go on producing; with `--follow` it waits for more until it is interrupted or has its `--count`.
"""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, BinaryIO

import typer

from millstream.cli.consume.decoding import Decoding, MessageFormat, open_decoding
from millstream.cli.consume.format_string import parse_format
from millstream.cli.consume.record_filter import RecordTest, make_filter
from millstream.cli.consume.records import Isolation, open_consumer, records
from millstream.cli.consume.spans import find_spans
from millstream.cli.kafka_client import Cluster
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, Registry, TopicName
from millstream.cli.position import HELP, parse_position
from millstream.cli.record_output import RecordFormat, RecordFormatter, ShownRecord
from millstream.errors import UsageError

PARTS = "%t topic, %p partition, %o offset, %k key, %v value, %h headers, %T ms, %d date, %K %V sizes"


def consume(
    topic: TopicName,
    *,
    start: Annotated[str, typer.Option("-o", "--from", metavar="POSITION", help=f"Where to start: {HELP}")] = "earliest",
    end: Annotated[str, typer.Option("--to", metavar="POSITION", help="Where to stop, before it; the same forms.")] = "latest",
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="Stop after so many records.", show_default="all")] = None,
    follow: Annotated[bool, typer.Option("-F", "--follow", help="Wait for more at the end, instead of leaving.")] = False,
    partition: Annotated[
        list[int] | None, typer.Option("-p", "--partition", help="Only this partition; repeatable.", show_default="all")
    ] = None,
    grep: Annotated[str | None, typer.Option("--grep", metavar="RE2", help="Only records whose key or value matches.")] = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", metavar="CONDITION", help="Only JSON (or Avro) values where user.id == 7; repeatable.")
    ] = None,
    output: Annotated[RecordFormat, typer.Option("--output", help="Raw values, JSON lines or a table.")] = RecordFormat.RAW,
    format_string: Annotated[
        str | None, typer.Option("-f", "--format", metavar="FORMAT", help=f"In this format, as '%t %p %o %k %v\\n': {PARTS}.")
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option("-K", "--key-separator", help="In raw output, write the key and this text before the value.")
    ] = None,
    value_format: Annotated[
        MessageFormat, typer.Option("--value-format", help="What values are; auto: by their schema, if a registry is named.")
    ] = MessageFormat.AUTO,
    key_format: Annotated[MessageFormat, typer.Option("--key-format", help="What keys are.")] = MessageFormat.AUTO,
    isolation: Annotated[
        Isolation, typer.Option("--isolation", help="read_committed leaves out what is of open or aborted transactions.")
    ] = Isolation.READ_COMMITTED,
    registry: Registry = None,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Read records of a topic from a position to another, or follow it."""
    first, last = parse_position(start, "--from"), parse_position(end, "--to")
    if follow and end != "latest":
        raise UsageError("--follow has no end: leave out --to, or --follow.")
    formatter = _formatter(output, format_string, key_separator)
    test = make_filter(grep, where or [])
    cluster = Cluster.of(brokers, client_options)
    with (
        open_decoding(key_format, value_format, registry=registry) as decoding,
        open_consumer(cluster, isolation) as consumer,
        cluster.plain_errors("reading"),
    ):
        spans, remarks = find_spans(cluster, consumer, topic=topic, chosen=partition, start=first, end=None if follow else last)
        for remark in remarks:
            print(f"millstream: {remark}", file=sys.stderr)
        shown = Showing(formatter, decoding, test, count=count, out=sys.stdout.buffer)
        try:
            shown.write(records(cluster, consumer, spans))
        finally:
            shown.report()


def _formatter(output: RecordFormat, format_string: str | None, key_separator: str | None) -> Callable[[ShownRecord], bytes]:
    if key_separator is not None and (output is not RecordFormat.RAW or format_string is not None):
        raise UsageError("--key-separator belongs to --output raw; the other formats show the key anyway.")
    if format_string is not None:
        if output is not RecordFormat.RAW:
            raise UsageError("-f and --output are two formats: give one.")
        return parse_format(format_string)
    in_colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return RecordFormatter(output, key_separator=None if key_separator is None else key_separator.encode(), in_colour=in_colour)


class Showing:
    """Decodes, filters, formats and writes records, those of one poll at once: nothing lies in a buffer while the next is waited for."""

    def __init__(
        self,
        formatter: Callable[[ShownRecord], bytes],
        decoding: Decoding | None,
        test: RecordTest | None,
        *,
        count: int | None,
        out: BinaryIO,
    ) -> None:
        self._formatter = formatter
        self._decoding = decoding
        self._test = test
        self._count = count
        self._out = out
        self.seen = 0
        self.written = 0

    def write(self, found: Iterator[ShownRecord | None]) -> None:
        """Write up to `count` of these."""
        lines = [getattr(self._formatter, "heading", b"")]
        try:
            for record in found:
                if record is None:
                    self._flush(lines)
                elif (line := self._line(record)) is not None:
                    lines.append(line)
                    self.written += 1
                    if self.written == self._count:
                        break
        finally:
            self._flush(lines)

    def _line(self, record: ShownRecord) -> bytes | None:
        self.seen += 1
        decoded = record if self._decoding is None else self._decoding(record)
        return self._formatter(decoded) if self._test is None or self._test(decoded) else None

    def _flush(self, lines: list[bytes]) -> None:
        self._out.write(b"".join(lines))
        self._out.flush()
        lines.clear()

    def report(self) -> None:
        """Say how much was searched, if it was, also when it was interrupted."""
        if self._test is not None:
            print(f"{self.written:,} of {self.seen:,} records matched", file=sys.stderr)
