"""How the sink produces: Kafka's own options (`kafka.*`), with the meaning and the limits that they have for Kafka's Java producer.

An option is obeyed, or it is refused with the reason. The few that tune Java's threads and cannot change what is written are accepted, and
so are those of a consumer: somebody who comes from `format("kafka")` brings them along, and a table of SQL has one list for both ways.

Two defaults differ, because here a whole task writes at once and nobody waits for a single record: `batch.size` is 512 KiB, not 16, and
`max.block.ms` ten seconds, not sixty: every attempt of a task waits that long for a topic that does not exist.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from millstream.client.delivery import MOST_IN_FLIGHT
from millstream.client.produce import ALL_REPLICAS, LEADER_ONLY, NO_ANSWER
from millstream.client.raw_producer import ProducerSettings
from millstream.spark.source.positions import OptionError
from millstream.wire.batch import HEADER_SIZE
from millstream.wire.compression import Codec

DEFAULT_CLIENT_ID: Final = "spark-millstream-sink"
_ACKS: Final = {"all": ALL_REPLICAS, "-1": ALL_REPLICAS, "1": LEADER_ONLY, "0": NO_ANSWER}
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}
_LEVELS: Final = {Codec.GZIP: range(1, 10), Codec.ZSTD: range(-131072, 23)}
_LARGEST: Final = 2**31 - 1
_REFUSED: Final = {
    "key.serializer": "key.format says how keys are written",
    "value.serializer": "value.format says how values are written",
    "partitioner.class": "records go where Kafka's default partitioner would put them; set the column `partition` for anything else",
    "interceptor.classes": "there is no Java producer here whose records could be intercepted",
    "transactional.id": "the sink does not write in transactions",
    "compression.lz4.level": "LZ4 has one level here",
}
_WITHOUT_EFFECT: Final = frozenset({
    "auto.include.jmx.reporter", "client.dns.lookup", "connections.max.idle.ms", "enable.metrics.push", "linger.ms", "metadata.max.age.ms",
    "metadata.max.idle.ms", "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters",
    "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
})  # fmt: skip


_OF_A_READ: Final = frozenset({
    "allow.auto.create.topics", "auto.commit.interval.ms", "check.crcs", "client.rack", "default.api.timeout.ms", "exclude.internal.topics",
    "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.id", "group.instance.id", "group.protocol", "group.remote.assignor",
    "heartbeat.interval.ms", "isolation.level", "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records",
    "partition.assignment.strategy", "session.timeout.ms",
})  # fmt: skip
"""Kafka's options for consumers: they have no effect on a write, as other options of a read have none."""


class Compression(NamedTuple):
    """How batches are compressed."""

    codec: Codec = Codec.NONE
    level: int | None = None


def parse_producer_settings(bootstrap_servers: str, kafka: Mapping[str, str]) -> ProducerSettings:
    """The settings of a producer from `kafka.*` options, given without the prefix."""
    _refuse_unknown(kafka)
    acks = _ACKS[_word(kafka, "acks", tuple(_ACKS), default="all")]
    is_idempotent = _idempotence(kafka, acks)
    request_timeout_ms = _number(kafka, "request.timeout.ms", 30_000)
    # The default grows with the timeout of a request, as nobody who sets only that one should be told about two.
    delivery_timeout_ms = _number(kafka, "delivery.timeout.ms", max(120_000, request_timeout_ms))
    if delivery_timeout_ms < request_timeout_ms:
        raise OptionError("kafka.delivery.timeout.ms", f"{delivery_timeout_ms} is less than kafka.request.timeout.ms, {request_timeout_ms}")
    max_request_size = _number(kafka, "max.request.size", 1024 * 1024, lowest=HEADER_SIZE + 10)
    return ProducerSettings(
        bootstrap_servers=bootstrap_servers,
        client_id=kafka.get("client.id") or DEFAULT_CLIENT_ID,
        acks=acks,
        is_idempotent=is_idempotent,
        batch_size=min(_number(kafka, "batch.size", 512 * 1024, lowest=0), max_request_size),
        buffer_memory=_number(kafka, "buffer.memory", 32 * 1024 * 1024),
        max_request_size=max_request_size,
        max_in_flight=_number(kafka, "max.in.flight.requests.per.connection", MOST_IN_FLIGHT),
        retries=_number(kafka, "retries", _LARGEST, lowest=0),
        request_timeout_ms=request_timeout_ms,
        delivery_timeout_ms=delivery_timeout_ms,
        max_block_ms=_number(kafka, "max.block.ms", 10_000),
        retry_backoff_ms=_number(kafka, "retry.backoff.ms", 100, lowest=0),
        retry_backoff_max_ms=_number(kafka, "retry.backoff.max.ms", 1_000, lowest=0),
        option_prefix="kafka.",
    )


def _refuse_unknown(kafka: Mapping[str, str]) -> None:
    for name, value in kafka.items():
        if name in _REFUSED:
            raise OptionError(f"kafka.{name}", f"it cannot be set: {_REFUSED[name]}")
        if name == "security.protocol" and value.upper() != "PLAINTEXT":
            raise OptionError("kafka.security.protocol", f"{value} is not there yet: PLAINTEXT")
        if name.startswith(("ssl.", "sasl.")):
            raise OptionError(f"kafka.{name}", "TLS and passwords are not there yet")
        if name not in _OBEYED | _WITHOUT_EFFECT | _OF_A_READ:
            raise OptionError(f"kafka.{name}", f"Kafka's producer has no such option. Those obeyed here are {', '.join(sorted(_OBEYED))}")


_OBEYED: Final = frozenset({
    "acks", "batch.size", "bootstrap.servers", "buffer.memory", "client.id", "compression.gzip.level", "compression.type",
    "compression.zstd.level", "delivery.timeout.ms", "enable.idempotence", "max.block.ms", "max.in.flight.requests.per.connection",
    "max.request.size", "partitioner.ignore.keys", "request.timeout.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms",
    "security.protocol",
})  # fmt: skip


def _idempotence(kafka: Mapping[str, str], acks: int) -> bool:
    """On unless acks or the requests in flight say otherwise; asked for against them, it is an error, as for Java's producer."""
    wanted = kafka.get("enable.idempotence")
    in_flight = _number(kafka, "max.in.flight.requests.per.connection", MOST_IN_FLIGHT)
    obstacle = None
    if acks != ALL_REPLICAS:
        obstacle = f"kafka.acks = all, not {kafka.get('acks')}"
    elif in_flight > MOST_IN_FLIGHT:
        obstacle = f"kafka.max.in.flight.requests.per.connection of at most {MOST_IN_FLIGHT}, not {in_flight}"
    elif "retries" in kafka and _number(kafka, "retries", 0, lowest=0) == 0:
        obstacle = "kafka.retries above 0"
    if wanted is None:
        return obstacle is None
    is_wanted = parse_flag(kafka, "enable.idempotence", default=True)
    if is_wanted and obstacle:
        raise OptionError("kafka.enable.idempotence", f"true needs {obstacle}")
    return is_wanted


def parse_compression(kafka: Mapping[str, str]) -> Compression:
    """The codec and level of `kafka.*` options."""
    codec = _CODECS[_word(kafka, "compression.type", tuple(_CODECS), default="none")]
    name = f"compression.{codec.name.lower()}.level"
    if codec not in _LEVELS or name not in kafka:
        return Compression(codec)
    allowed = _LEVELS[codec]
    level = _number(kafka, name, 0, lowest=allowed[0])
    if level not in allowed:
        raise OptionError(f"kafka.{name}", f"{level} is above {allowed[-1]}")
    return Compression(codec, level)


def _word(kafka: Mapping[str, str], name: str, allowed: tuple[str, ...], *, default: str) -> str:
    text = kafka.get(name, default).strip().lower()
    if text not in allowed:
        raise OptionError(f"kafka.{name}", f"{kafka[name]!r} is none of {', '.join(allowed)}")
    return text


def parse_flag(kafka: Mapping[str, str], name: str, *, default: bool) -> bool:
    """True or false."""
    return _word(kafka, name, ("true", "false"), default=str(default)) == "true"


def _number(kafka: Mapping[str, str], name: str, default: int, *, lowest: int = 1) -> int:
    text = kafka.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        raise OptionError(f"kafka.{name}", f"{text!r} is not a whole number") from None
    if not lowest <= number <= _LARGEST:
        raise OptionError(f"kafka.{name}", f"{number} is not between {lowest} and {_LARGEST}")
    return number
