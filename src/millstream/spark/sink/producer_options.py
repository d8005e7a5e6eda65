"""How the sink produces: Kafka's own options (`kafka.*`), with the meaning and the limits that they have for Kafka's Java producer.

An option is obeyed, or it is refused with the reason. The few that tune Java's threads and cannot change what is written are accepted, and
so are those of a consumer: queries that used `format("kafka")` have them, and a table of SQL has one list for both directions. The defaults
are those of `ProducerSettings`.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from millstream.client.codecs.produce import ALL_REPLICAS, LEADER_ONLY, NO_ANSWER
from millstream.client.partition_queue import MOST_IN_FLIGHT
from millstream.client.raw_producer import ProducerSettings
from millstream.client.security.client_security import PREFIXES as SECURITY_PREFIXES
from millstream.spark.options import LARGEST_LONG, OptionError, Options
from millstream.wire.batch import HEADER_SIZE
from millstream.wire.compression import Codec

DEFAULT_CLIENT_ID: Final = "spark-millstream-sink"
_ACKS: Final = {"all": ALL_REPLICAS, "-1": ALL_REPLICAS, "1": LEADER_ONLY, "0": NO_ANSWER}
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}
_LEVELS: Final = {Codec.GZIP: range(1, 10), Codec.ZSTD: range(-131072, 23)}
_REFUSED: Final = {
    "key.serializer": "key.format says how keys are written",
    "value.serializer": "value.format says how values are written",
    "partitioner.class": "records go where Kafka's default partitioner would put them; set the column `partition` for anything else",
    "interceptor.classes": "there is no Java producer here whose records could be intercepted",
    "transactional.id": "the sink names its transactions itself, with delivery.guarantee = exactly-once",
    "compression.lz4.level": "LZ4 has one level here",
}
OBEYED: Final = frozenset({
    "acks", "batch.size", "bootstrap.servers", "buffer.memory", "client.id", "compression.gzip.level", "compression.type",
    "compression.zstd.level", "delivery.timeout.ms", "enable.idempotence", "max.block.ms", "max.in.flight.requests.per.connection",
    "max.request.size", "partitioner.ignore.keys", "request.timeout.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms",
    "transaction.timeout.ms",
})  # fmt: skip
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


DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 900_000
"""As long as brokers allow by default: a query that died has this long to come back, and a micro-batch this long to be written."""


class Compression(NamedTuple):
    """How batches are compressed."""

    codec: Codec = Codec.NONE
    level: int | None = None


def parse_producer_settings(options: Options) -> ProducerSettings:
    """The settings of a producer, from `kafka.*` options."""
    _refuse_unknown(options)
    default = ProducerSettings(options.bootstrap_servers(), client_id=DEFAULT_CLIENT_ID, option_prefix="kafka.")
    acks = _ACKS[options.word("kafka.acks", tuple(_ACKS), default="all")]
    is_idempotent = _idempotence(options, acks)
    request_timeout_ms = options.number("kafka.request.timeout.ms", default.request_timeout_ms)
    # The default grows with the timeout of a request: who sets only that one should not get an error about two.
    delivery_timeout_ms = options.number("kafka.delivery.timeout.ms", max(default.delivery_timeout_ms, request_timeout_ms))
    if delivery_timeout_ms < request_timeout_ms:
        raise OptionError("kafka.delivery.timeout.ms", f"{delivery_timeout_ms} is less than kafka.request.timeout.ms, {request_timeout_ms}")
    timeout_ms = options.number("kafka.transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS)
    max_request_size = options.number("kafka.max.request.size", default.max_request_size, lowest=HEADER_SIZE + 10)
    return replace(
        default,
        client_id=options.get("kafka.client.id") or DEFAULT_CLIENT_ID,
        security=options.security(),
        acks=acks,
        is_idempotent=is_idempotent,
        batch_size=min(options.number("kafka.batch.size", default.batch_size, lowest=0), max_request_size),
        buffer_memory=options.number("kafka.buffer.memory", default.buffer_memory, highest=LARGEST_LONG),
        max_request_size=max_request_size,
        max_in_flight=options.number("kafka.max.in.flight.requests.per.connection", default.max_in_flight),
        retries=options.number("kafka.retries", default.retries, lowest=0),
        request_timeout_ms=request_timeout_ms,
        delivery_timeout_ms=delivery_timeout_ms,
        max_block_ms=options.number("kafka.max.block.ms", default.max_block_ms, highest=LARGEST_LONG),
        retry_backoff_ms=options.number("kafka.retry.backoff.ms", default.retry_backoff_ms, lowest=0, highest=LARGEST_LONG),
        retry_backoff_max_ms=options.number("kafka.retry.backoff.max.ms", default.retry_backoff_max_ms, lowest=0, highest=LARGEST_LONG),
        transaction_timeout_ms=timeout_ms if _is_exactly_once(options, is_idempotent=is_idempotent) else None,
    )


def parse_compression(options: Options) -> Compression:
    """The codec and level of `kafka.*` options."""
    codec = _CODECS[options.word("kafka.compression.type", tuple(_CODECS), default="none")]
    name = f"kafka.compression.{codec.name.lower()}.level"
    if codec not in _LEVELS or name not in options:
        return Compression(codec)
    allowed = _LEVELS[codec]
    level = options.number(name, 0, lowest=allowed[0])
    if level not in allowed:
        raise OptionError(name, f"{level} is above {allowed[-1]}")
    return Compression(codec, level)


def _refuse_unknown(options: Options) -> None:
    options.refuse_kafka(_REFUSED)
    for name in options.kafka():
        if name not in OBEYED | _WITHOUT_EFFECT | _OF_A_READ and not name.startswith(SECURITY_PREFIXES):
            raise OptionError(f"kafka.{name}", f"Kafka's producer has no such option. Those obeyed here are {', '.join(sorted(OBEYED))}")


def _is_exactly_once(options: Options, *, is_idempotent: bool) -> bool:
    guarantee = options.word("delivery.guarantee", ("at-least-once", "exactly-once"), default="at-least-once")
    if guarantee == "exactly-once" and not is_idempotent:
        raise OptionError(
            "delivery.guarantee",
            "exactly-once needs an idempotent producer: leave out kafka.enable.idempotence, kafka.acks, kafka.retries "
            "and kafka.max.in.flight.requests.per.connection",
        )
    return guarantee == "exactly-once"


def _idempotence(options: Options, acks: int) -> bool:
    """On unless acks or the requests in flight say otherwise; asked for against them, it is an error, as for Java's producer."""
    in_flight = options.number("kafka.max.in.flight.requests.per.connection", MOST_IN_FLIGHT)
    obstacle = None
    if acks != ALL_REPLICAS:
        obstacle = f"kafka.acks = all, not {options['kafka.acks']}"
    elif in_flight > MOST_IN_FLIGHT:
        obstacle = f"kafka.max.in.flight.requests.per.connection of at most {MOST_IN_FLIGHT}, not {in_flight}"
    elif options.number("kafka.retries", 1, lowest=0) == 0:
        obstacle = "kafka.retries above 0"
    is_wanted = options.flag("kafka.enable.idempotence", default=obstacle is None)
    if is_wanted and obstacle:
        raise OptionError("kafka.enable.idempotence", f"true needs {obstacle}")
    return is_wanted
