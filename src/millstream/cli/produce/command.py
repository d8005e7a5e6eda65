"""`millstream produce`: send records to a topic, one per argument or one per line of stdin, or the lines of files as they grow.

Memory stays bounded however long the input is: librdkafka's queue is the only buffer, and when it is full we wait for deliveries. The first
record that cannot be delivered ends the command with exit code 1. However it ends, what was delivered is said.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.argument_text import check_text
from millstream.cli.kafka_client import Cluster, close_name
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, Output, OutputFormat, Registry, TopicName
from millstream.cli.produce.deliveries import Deliveries, with_progress
from millstream.cli.produce.record_form import ANY_PARTITION, Encode, JsonForm, Outgoing, RecordForm
from millstream.cli.properties import parse_assignment
from millstream.errors import CommandFailed, UsageError

if TYPE_CHECKING:
    from confluent_kafka import Producer

DELIVERY_TIMEOUT_MS = 30_000
INTERRUPTED_S = 3.0
"""How long Ctrl-C waits for what is under way."""


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


class Input(StrEnum):
    """What the lines are."""

    LINES = "lines"
    JSON = "json"


class SentFormat(StrEnum):
    """What keys or values are sent as."""

    BINARY = "binary"
    AVRO = "avro"


class Edge(StrEnum):
    """Where a file that was never seen is read from."""

    EARLIEST = "earliest"
    LATEST = "latest"


def produce(
    topic: TopicName,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="VALUE", help="Values to send; without any, lines of stdin. With --follow: files.")
    ] = None,
    *,
    input_format: Annotated[
        Input, typer.Option("-i", "--input", help="What a line (or VALUE) is: a value, or JSON as `consume --output json` writes it.")
    ] = Input.LINES,
    key: Annotated[str | None, typer.Option("-k", "--key", help="Key of every record.")] = None,
    key_separator: Annotated[str | None, typer.Option("-K", "--key-separator", help="Each value is KEY, this text, VALUE.")] = None,
    header: Annotated[list[str] | None, typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header of every record.")] = None,
    partition: Annotated[int, typer.Option("-p", "--partition", help="Partition.", show_default="by the key")] = ANY_PARTITION,
    by_key: Annotated[
        bool, typer.Option("--by-key", help="With --input json: choose partitions by the keys, not as the lines say.")
    ] = False,
    value_format: Annotated[
        SentFormat, typer.Option("--value-format", help="avro: values are JSON, and are sent by the schema of the registry.")
    ] = SentFormat.BINARY,
    key_format: Annotated[SentFormat, typer.Option("--key-format", help="The same for keys.")] = SentFormat.BINARY,
    value_schema: Annotated[
        Path | None, typer.Option("--value-schema", metavar="FILE", help="Register this schema and use it.", show_default="the latest")
    ] = None,
    key_schema: Annotated[
        Path | None, typer.Option("--key-schema", metavar="FILE", help="The same for keys.", show_default="the latest")
    ] = None,
    registry: Registry = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="The arguments are files: send their lines as they grow, each at least once.")
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="With --follow: where to remember what was sent.", show_default="in ~/.local/state"),
    ] = None,
    start: Annotated[Edge, typer.Option("--from", help="With --follow: where to begin in files that were never seen.")] = Edge.EARLIEST,
    codec: Annotated[Codec, typer.Option("-z", "--codec", help="Compression.")] = Codec.NONE,
    acks: Annotated[Acks, typer.Option("-a", "--acks", help="Acknowledgements to wait for.")] = Acks.ALL,
    tombstones: Annotated[bool, typer.Option("--tombstones", help="Send an empty value as null, which deletes the key.")] = False,
    brokers: Brokers = DEFAULT_BROKERS,
    output: OutputFormat = Output.TABLE,
    client_options: ClientOptions = None,
) -> None:
    """Send records to a topic, from the arguments or from the lines of stdin, or follow files."""
    check_text([topic, brokers, *(client_options or [])])
    _check(input_format, key, key_separator, by_key=by_key, tombstones=tombstones)
    _check_follow(values, acks, state, follow=follow)
    headers = [(name, os.fsencode(value)) for name, value in (parse_assignment(text, "--header") for text in header or [])]
    encode_key = _encoding(registry, topic, key_format, key_schema, is_key=True)
    encode_value = _encoding(registry, topic, value_format, value_schema, is_key=False)
    form: Callable[[bytes], Outgoing] = (
        JsonForm(partition, headers, by_key=by_key, encode_key=encode_key, encode_value=encode_value)
        if input_format is Input.JSON
        else RecordForm(
            partition, headers, _bytes(key), _bytes(key_separator), tombstones, encode_key=encode_key, encode_value=encode_value
        )
    )
    cluster = Cluster.of(brokers, client_options)
    producer = cluster.producer(_settings(acks, codec, follow=follow))
    _check_partition(cluster, producer, topic=topic, partition=partition)
    deliveries = Deliveries(topic, producer, output)
    try:
        with cluster.plain_errors("sending"):
            if follow:
                _follow(values or [], form, deliveries, state=state, start=start)
            else:
                _send(map(os.fsencode, values) if values else _lines_of_stdin(), form, deliveries)
    except KeyboardInterrupt:
        print(f"interrupted: {deliveries.summary()}{deliveries.doubt()}", file=sys.stderr)
        raise
    _report(deliveries, cluster)


def _report(deliveries: Deliveries, cluster: Cluster) -> None:
    if deliveries.failure is not None:
        arrived = f"{deliveries.count} records had arrived before"
        reason = cluster.refusal(deliveries.topic, deliveries.failure)
        raise CommandFailed(f"A record for {deliveries.topic!r} was not delivered to {cluster.brokers}: {reason} ({arrived}).")
    print(deliveries.summary(), file=sys.stderr)


def _bytes(text: str | None) -> bytes | None:
    """The bytes that were typed, whatever they mean."""
    return None if text is None else os.fsencode(text)


def _check(input_format: Input, key: str | None, key_separator: str | None, *, by_key: bool, tombstones: bool) -> None:
    if key is not None and key_separator is not None:
        raise UsageError("Give either --key, one key for all, or --key-separator, a key in each line.")
    if input_format is Input.JSON and (key is not None or key_separator is not None or tombstones):
        raise UsageError("With --input json keys and nulls stand in the lines: leave out --key, --key-separator and --tombstones.")
    if by_key and input_format is not Input.JSON:
        raise UsageError("--by-key belongs to --input json; other lines name no partition.")


def _check_follow(values: list[str] | None, acks: Acks, state: Path | None, *, follow: bool) -> None:
    if follow and not values:
        raise UsageError("--follow needs files: millstream produce TOPIC --follow FILE...")
    for file in values or [] if follow else []:
        if Path(file).is_dir():
            raise UsageError(f"{file} is a directory: name its files.")
    if follow and acks is not Acks.ALL:
        raise UsageError("--follow sends each line at least once, so it waits for all acknowledgements: leave out --acks.")
    if state is not None and not follow:
        raise UsageError("--state belongs to --follow.")


def _settings(acks: Acks, codec: Codec, *, follow: bool) -> dict[str, str]:
    settings = {"acks": acks.value, "compression.type": codec.value, "message.timeout.ms": str(DELIVERY_TIMEOUT_MS), "linger.ms": "5"}
    if not follow:
        return settings
    from millstream.cli.produce.follow import SETTINGS

    return settings | SETTINGS


def _encoding(registry: str | None, topic: str, chosen: SentFormat, schema: Path | None, *, is_key: bool) -> Encode | None:
    if chosen is SentFormat.BINARY:
        if schema is not None:
            name = "key" if is_key else "value"
            raise UsageError(f"--{name}-schema belongs to --{name}-format avro.")
        return None
    from millstream.cli.produce.avro_encoding import make_avro_encoding

    return make_avro_encoding(registry, topic, is_key=is_key, schema_file=schema)


def _send(lines: Iterable[bytes], form: Callable[[bytes], Outgoing], deliveries: Deliveries) -> None:
    """Hand every line to the producer and wait until all are delivered or one has failed; also what was handed over before an error."""
    at_most_s = None
    try:
        for line in with_progress(lines, deliveries):
            deliveries.hand_over(form(line))
            if deliveries.failure is not None:
                break
    except KeyboardInterrupt:
        at_most_s = INTERRUPTED_S
        raise
    finally:
        deliveries.wait(at_most_s=at_most_s)


def _follow(files: list[str], form: Callable[[bytes], Outgoing], deliveries: Deliveries, *, state: Path | None, start: Edge) -> None:
    from millstream.cli.produce.follow import Follower
    from millstream.cli.produce.follow_state import default_state_file

    if state is None:
        cluster_id = deliveries.producer.list_topics(deliveries.topic).cluster_id or "unknown"
        state = default_state_file(os.environ, cluster_id=cluster_id, topic=deliveries.topic)
    print(f"following {', '.join(files)}; what was sent is remembered in {state}", file=sys.stderr)
    Follower(
        [Path(file) for file in files],
        form,
        deliveries,
        state=state,
        from_end=start is Edge.LATEST,
        say=lambda text: print(f"millstream: {text}", file=sys.stderr),
    ).run()


def _check_partition(cluster: Cluster, producer: "Producer", *, topic: str, partition: int) -> None:
    """That the partition is there; the topic is created if the brokers do that, and then it is said."""
    with cluster.plain_errors("asking for the topics"):
        existing = producer.list_topics().topics
    partitions = cluster.topic_to_write(producer, topic).partitions
    if topic not in existing:
        meant = close_name(topic, existing)
        print(f"created {topic}" + (f"; did you mean {meant}?" if meant else ""), file=sys.stderr)
    if partition != ANY_PARTITION and partition not in partitions:
        raise CommandFailed(f"The topic {topic!r} has no partition {partition}: it has {len(partitions)}, from 0 to {len(partitions) - 1}.")


def _lines_of_stdin() -> Iterator[bytes]:
    if sys.stdin.isatty():
        print("One record per line; end with Ctrl-D.", file=sys.stderr)
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")
