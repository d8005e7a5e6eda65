"""`millstream consume`: read records of a topic and write them to stdout.

Joins no group and commits nothing: it assigns itself the partitions. Without `--follow` it reads up to the end as it was at the start, so
it ends even while others go on producing; with `--follow` it waits for more until it is interrupted or has its `--count`.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from millstream.cli.kafka_client import REQUEST_SECONDS, Cluster, plain
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, TopicName
from millstream.cli.record_output import RecordFormat, RecordFormatter, ShownRecord
from millstream.cli.start_position import OffsetRange, Start, StartPosition, parse_start_position
from millstream.errors import CommandFailed, UsageError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

POLL_SECONDS = 0.1
RECORDS_PER_POLL = 1_000
SETTINGS = {
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "fetch.wait.max.ms": "100",
    "fetch.queue.backoff.ms": "10",  # librdkafka would rest a whole second whenever its queue is full
    "allow.auto.create.topics": "false",
}


def consume(
    topic: TopicName,
    *,
    offset: Annotated[
        str, typer.Option("-o", "--offset", metavar="OFFSET", help="Where to start: beginning, end, N, -N (the last N), @TIME.")
    ] = "beginning",
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="Stop after so many records.", show_default="all")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Wait for more at the end, instead of leaving.")] = False,
    partition: Annotated[
        list[int] | None, typer.Option("-p", "--partition", help="Only this partition; repeatable.", show_default="all")
    ] = None,
    output: Annotated[RecordFormat, typer.Option("--output", help="Raw values, JSON lines or a table.")] = RecordFormat.RAW,
    key_separator: Annotated[
        str | None, typer.Option("-K", "--key-separator", help="In raw output, write the key and this text before the value.")
    ] = None,
    brokers: Brokers = DEFAULT_BROKERS,
    client_options: ClientOptions = None,
) -> None:
    """Read records of a topic from an offset to its end, or follow it."""
    start = parse_start_position(offset)
    if key_separator is not None and output is not RecordFormat.RAW:
        raise UsageError("--key-separator belongs to --output raw; the other formats show the key anyway.")
    formatter = RecordFormatter(output, key_separator=None if key_separator is None else key_separator.encode())
    cluster = Cluster.of(brokers, client_options)
    with _consumer(cluster) as consumer, cluster.plain_errors("reading"):
        partitions = _chosen_partitions(cluster, consumer, topic=topic, chosen=partition)
        ranges = {number: _offset_range(consumer, topic, partition=number) for number in partitions}
        starts = _start_offsets(consumer, topic, ranges=ranges, start=start)
        ends = None if follow else {number: ranges[number].latest for number in partitions}
        _write(_records(cluster, consumer, topic=topic, starts=starts, ends=ends), formatter, count=count, out=sys.stdout.buffer)


@contextmanager
def _consumer(cluster: Cluster) -> Iterator["Consumer"]:
    consumer = cluster.consumer(SETTINGS)
    try:
        yield consumer
    finally:
        consumer.close()


def _chosen_partitions(cluster: Cluster, consumer: "Consumer", *, topic: str, chosen: list[int] | None) -> list[int]:
    existing = cluster.existing_topic(consumer, topic).partitions
    missing = set(chosen or []) - set(existing)
    if missing:
        raise CommandFailed(f"The topic {topic!r} has no partition {min(missing)}: it has {len(existing)}, from 0 to {len(existing) - 1}.")
    return sorted(set(chosen)) if chosen else sorted(existing)


def _offset_range(consumer: "Consumer", topic: str, *, partition: int) -> OffsetRange:
    from confluent_kafka import TopicPartition

    watermarks = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=REQUEST_SECONDS)
    if watermarks is None:
        raise CommandFailed(f"The broker did not give the offsets of {topic}-{partition} within {REQUEST_SECONDS:.0f} s.")
    return OffsetRange(*watermarks)


def _start_offsets(consumer: "Consumer", topic: str, *, ranges: Mapping[int, OffsetRange], start: StartPosition) -> dict[int, int]:
    """The offset to start from in every partition."""
    if start.kind is not Start.TIME:
        return {number: start.offset_in(offsets) for number, offsets in ranges.items()}
    from confluent_kafka import TopicPartition

    asked = [TopicPartition(topic, number, start.number) for number in ranges]
    found = consumer.offsets_for_times(asked, timeout=REQUEST_SECONDS)
    # Nothing that young: librdkafka answers its number for "end".
    return {place.partition: place.offset if place.offset >= 0 else ranges[place.partition].latest for place in found}


def _records(
    cluster: Cluster, consumer: "Consumer", *, topic: str, starts: Mapping[int, int], ends: Mapping[int, int] | None
) -> Iterator[ShownRecord | None]:
    """Records of the partitions from their starts to their ends (or forever); None after each poll."""
    from confluent_kafka import TopicPartition

    open_partitions = {number for number in starts if ends is None or starts[number] < ends[number]}
    if not open_partitions:
        return
    consumer.assign([TopicPartition(topic, number, starts[number]) for number in open_partitions])
    while open_partitions:
        for message in consumer.consume(RECORDS_PER_POLL, POLL_SECONDS):
            number = message.partition()
            assert number is not None
            if _is_end(cluster, message):
                if ends is not None:
                    open_partitions.discard(number)
                continue
            record = _shown(message)
            if ends is None or record.offset < ends[number]:
                yield record
            if ends is not None and record.offset + 1 >= ends[number]:
                open_partitions.discard(number)
        yield None


def _is_end(cluster: Cluster, message: "Message") -> bool:
    """Whether this is the end of a partition; raises for any other event that is not a record."""
    error = message.error()
    if error is None:
        return False
    if error.name() == "_PARTITION_EOF":
        return True
    raise CommandFailed(f"Reading {message.topic()}-{message.partition()} from {cluster.brokers} failed: {plain(error)}.")


def _shown(message: "Message") -> ShownRecord:
    offset, partition = message.offset(), message.partition()
    assert offset is not None
    assert partition is not None
    return ShownRecord(message.topic() or "", partition, offset, message.timestamp()[1], message.key(), message.value(), _headers(message))


def _headers(message: "Message") -> list[tuple[str, bytes | None]]:
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]


def _write(records: Iterator[ShownRecord | None], formatter: RecordFormatter, *, count: int | None, out: BinaryIO) -> None:
    """Write up to `count` records, those of one poll at once, so that nothing lies in a buffer while we wait for the next."""
    lines = [formatter.heading]
    seen = 0
    for record in records:
        if record is None:
            out.write(b"".join(lines))
            out.flush()
            lines.clear()
            continue
        lines.append(formatter(record))
        seen += 1
        if seen == count:
            break
    out.write(b"".join(lines))
    out.flush()
