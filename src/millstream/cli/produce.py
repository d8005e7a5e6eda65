"""`millstream produce`: send records to a topic, one per argument or one per line of stdin.

Lines are bytes and stay as they are; only the newline is cut off. Memory stays bounded however long the input is: librdkafka's queue is
the only buffer, and when it is full we wait for deliveries. The first record that cannot be delivered ends the command with exit code 1.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.kafka_client import Cluster
from millstream.cli.output import print_json
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, Output, OutputFormat, TopicName
from millstream.cli.properties import parse_assignment
from millstream.errors import CommandFailed, UsageError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

ANY_PARTITION = -1
FLUSH_SLICE_SECONDS = 0.2
DELIVERY_TIMEOUT_MS = 30_000
PROGRESS_AFTER_SECONDS = 1.0
PROGRESS_EVERY_SECONDS = 0.2


class Codec(StrEnum):
    """Compression of the batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """Who has to have a record before it counts as delivered."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


@dataclass(frozen=True)
class RecordForm:
    """What a line becomes: a record of this topic, with these headers."""

    topic: str
    partition: int = ANY_PARTITION
    headers: Sequence[tuple[str, bytes]] = ()
    key: bytes | None = None
    key_separator: bytes | None = None
    empty_is_null: bool = False

    def split(self, line: bytes) -> tuple[bytes | None, bytes | None]:
        """Key and value of a line."""
        key, value = self.key, line
        if self.key_separator:
            before, separator, after = line.partition(self.key_separator)
            if not separator:
                raise UsageError(f"The line {_excerpt(line)} has no key separator {self.key_separator.decode()!r}.")
            key, value = before, after
        return key, None if self.empty_is_null and not value else value


@dataclass
class Deliveries:
    """What became of the records: counted per partition, so that a million lines cost no memory."""

    output: Output
    sent: dict[int, list[int]] = field(default_factory=dict)
    failure: "KafkaError | None" = None

    @property
    def count(self) -> int:
        """How many records have arrived."""
        return sum(count for count, _, _ in self.sent.values())

    def __call__(self, error: "KafkaError | None", message: "Message") -> None:
        if error is not None:
            self.failure = self.failure or error
            return
        partition, offset = message.partition() or 0, message.offset()
        offset = -1 if offset is None else offset  # with acks=0 no offset is answered
        count, first, _ = self.sent.get(partition, (0, offset, offset))
        self.sent[partition] = [count + 1, first, offset]
        if self.output is Output.JSON:
            print_json({"topic": message.topic(), "partition": partition, "offset": offset if offset >= 0 else None})

    def summary(self, topic: str) -> str:
        """One line that says how many records went where."""
        parts = [
            f"partition {partition} " + (f"offsets {first}-{last}" if first >= 0 else f"{count} unacknowledged")
            for partition, (count, first, last) in sorted(self.sent.items())
        ]
        return f"sent {self.count} record{'' if self.count == 1 else 's'} to {topic}" + (": " + ", ".join(parts) if parts else "")


def produce(
    topic: TopicName,
    values: Annotated[list[str] | None, typer.Argument(metavar="VALUE", help="Values to send; without any, lines of stdin.")] = None,
    *,
    key: Annotated[str | None, typer.Option("-k", "--key", help="Key of every record.")] = None,
    key_separator: Annotated[str | None, typer.Option("-K", "--key-separator", help="Each value is KEY, this text, VALUE.")] = None,
    header: Annotated[list[str] | None, typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header of every record.")] = None,
    partition: Annotated[int, typer.Option("-p", "--partition", help="Partition.", show_default="by the key")] = ANY_PARTITION,
    codec: Annotated[Codec, typer.Option("-z", "--codec", help="Compression.")] = Codec.NONE,
    acks: Annotated[Acks, typer.Option("-a", "--acks", help="Acknowledgements to wait for.")] = Acks.ALL,
    tombstones: Annotated[bool, typer.Option("--tombstones", help="Send an empty value as null, which deletes the key.")] = False,
    brokers: Brokers = DEFAULT_BROKERS,
    output: OutputFormat = Output.TABLE,
    client_options: ClientOptions = None,
) -> None:
    """Send records to a topic, from the arguments or from the lines of stdin."""
    if key is not None and key_separator is not None:
        raise UsageError("Give either --key, one key for all, or --key-separator, a key in each line.")
    separator = key_separator.encode() if key_separator else None
    headers = [(name, value.encode()) for name, value in (parse_assignment(text, "--header") for text in header or [])]
    common_key = None if key is None else key.encode()
    form = RecordForm(topic, partition, headers, key=common_key, key_separator=separator, empty_is_null=tombstones)
    cluster = Cluster.of(brokers, client_options)
    settings = {"acks": acks.value, "compression.type": codec.value, "message.timeout.ms": str(DELIVERY_TIMEOUT_MS), "linger.ms": "5"}
    producer = cluster.producer(settings)
    _check_partition(cluster, producer, topic=topic, partition=partition)
    deliveries = Deliveries(output)
    lines = [value.encode() for value in values] if values else _lines_of_stdin()
    with cluster.plain_errors("sending"):
        _send(producer, _with_progress(lines, deliveries), form=form, deliveries=deliveries)
    if deliveries.failure is not None:
        arrived = f"{deliveries.count} records had arrived before"
        reason = cluster.refusal(topic, deliveries.failure)
        raise CommandFailed(f"A record for {topic!r} was not delivered to {brokers}: {reason} ({arrived}).")
    print(deliveries.summary(topic), file=sys.stderr)


def _send(producer: "Producer", lines: Iterable[bytes], *, form: RecordForm, deliveries: Deliveries) -> None:
    """Hand every line to the producer and wait until all are delivered or one has failed; also what was handed over before an error."""
    try:
        for line in lines:
            _hand_over(producer, line, form=form, deliveries=deliveries)
            producer.poll(0)
            if deliveries.failure is not None:
                break
    finally:
        while deliveries.failure is None and producer.flush(FLUSH_SLICE_SECONDS) > 0:
            pass


def _hand_over(producer: "Producer", line: bytes, *, form: RecordForm, deliveries: Deliveries) -> None:
    key, value = form.split(line)
    while True:
        try:
            producer.produce(form.topic, value, key, partition=form.partition, headers=list(form.headers), on_delivery=deliveries)
            return
        except BufferError:  # the queue is full: let some be delivered first
            producer.poll(FLUSH_SLICE_SECONDS)


def _check_partition(cluster: Cluster, producer: "Producer", *, topic: str, partition: int) -> None:
    partitions = cluster.topic_to_write(producer, topic).partitions
    if partition != ANY_PARTITION and partition not in partitions:
        raise CommandFailed(f"The topic {topic!r} has no partition {partition}: it has {len(partitions)}, from 0 to {len(partitions) - 1}.")


def _lines_of_stdin() -> Iterator[bytes]:
    if sys.stdin.isatty():
        print("One record per line; end with Ctrl-D.", file=sys.stderr)
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")


def _with_progress(lines: Iterable[bytes], deliveries: Deliveries) -> Iterator[bytes]:
    """The same lines; when it takes long and a person watches, how far it is on the last line of the terminal."""
    if not sys.stderr.isatty() or sys.stdin.isatty():
        yield from lines
        return
    from rich.console import Console

    started = time.monotonic()
    shown = started + PROGRESS_AFTER_SECONDS - PROGRESS_EVERY_SECONDS
    with Console(stderr=True).status("") as status:
        for line in lines:
            yield line
            now = time.monotonic()
            if now - shown >= PROGRESS_EVERY_SECONDS:
                shown = now
                status.update(f"{deliveries.count:,} records delivered, {deliveries.count / (now - started):,.0f} per second")


def _excerpt(line: bytes) -> str:
    text = line[:40].decode(errors="replace")
    return repr(text + ("..." if len(line) > 40 else ""))
