"""Where confluent-kafka enters: the settings of its producers and consumers, and its errors as ours.

Keys are hashed with Java's murmur2, so that every client puts a key into the same partition; a message without a key goes to a random one.
A consumer is used with `assign` only: librdkafka wants the name of a group for it, but none is joined, nothing is committed to the broker,
and where to start is always given. Nothing here is imported by a broker.
"""

import ctypes
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition, cimpl
from confluent_kafka import KafkaError as LibrdkafkaError

from millstream.client.connect_reason import ConnectReason
from millstream.client.errors import BrokerUnavailable, ClientError, DeliveryFailed
from millstream.client.key_partition import key_partition
from millstream.errors import MillstreamError, UnknownTopicOrPartition, UsageError
from millstream.paper.errors import OffsetExpired, TransactionAborted
from millstream.paper.message import Message, Payload
from millstream.paper.settings import Setting
from millstream.transaction_errors import ProducerFenced

_log = logging.getLogger(__name__)

Settings = Mapping[str, Setting]
RefusedAtOnce = KafkaException
"""What a producer raises for a message that it does not even queue."""

_UNKNOWN_TOPIC_CODES: Final = frozenset({LibrdkafkaError.UNKNOWN_TOPIC_OR_PART, LibrdkafkaError._UNKNOWN_TOPIC})
_UNUSABLE_SETTING_CODES: Final = frozenset({LibrdkafkaError._INVALID_ARG, LibrdkafkaError._UNKNOWN_PROTOCOL})
_GONE_CODES: Final = frozenset({LibrdkafkaError._TRANSPORT, LibrdkafkaError._ALL_BROKERS_DOWN, LibrdkafkaError._RESOLVE})
_FENCED_CODES: Final = frozenset({LibrdkafkaError._FENCED, LibrdkafkaError.PRODUCER_FENCED, LibrdkafkaError.INVALID_PRODUCER_EPOCH})
_NO_TRANSACTIONS_CODES: Final = frozenset(
    {
        LibrdkafkaError._UNSUPPORTED_FEATURE,
        LibrdkafkaError.UNSUPPORTED_VERSION,
        LibrdkafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)

_STATISTICS_MS: Final = 2_000
_LARGEST_MESSAGE: Final = 1_000_000
"""What librdkafka sends where `message.max.bytes` does not say otherwise."""
_PRODUCER: Final[dict[str, Setting]] = {
    "client.id": "millstream",
    "partitioner": "murmur2_random",
    # Retries neither repeat nor reorder the messages of a partition.
    "enable.idempotence": True,
    # Only failures are reported one by one; a report per message would cost more than the message.
    "delivery.report.only.error": True,
    "message.timeout.ms": 60_000,
    "log_level": 3,
}
_CONSUMER: Final[dict[str, Setting]] = {
    "client.id": "millstream",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    # A reader that falls behind pauses its fetcher; the default of a second starves one that is fast again.
    "fetch.queue.backoff.ms": 5,
    "log_level": 3,
}


def open_producer(
    brokers: str,
    options: Settings,
    *,
    on_failure: Callable[[Any, Any], None],
    on_statistics: Callable[[str], None] | None = None,
    on_error: Callable[[Any], None] | None = None,
) -> Producer:
    """A producer; `on_failure(error, message)` is called for each message that could not be delivered, `on_statistics` now and then, and
    `on_error` with what is wrong with its connections."""
    statistics = {} if on_statistics is None else {"statistics.interval.ms": _STATISTICS_MS, "stats_cb": on_statistics}
    errors = {} if on_error is None else {"error_cb": on_error}
    callbacks = {**errors, "on_delivery": on_failure, "logger": _log}
    client: Producer = _open(Producer, {**_PRODUCER, **statistics, "bootstrap.servers": brokers, **options, **callbacks})
    return client


def open_consumer(brokers: str, group: str, options: Settings) -> Consumer:
    """A consumer without partitions."""
    client: Consumer = _open(Consumer, {**_CONSUMER, "bootstrap.servers": brokers, "group.id": group, **options, "logger": _log})
    return client


def positions(topic: str, offsets: Iterable[tuple[int, int]]) -> list[TopicPartition]:
    """Partitions with the offsets to go on from, as `Consumer.assign` takes them."""
    return [TopicPartition(topic, partition, offset) for partition, offset in offsets]


def await_answer(client: Producer, brokers: str, reason: ConnectReason, *, timeout_s: float) -> None:
    """Wait until one of the brokers has answered; `BrokerUnavailable` if none does, with the reason that its `error_cb` was given."""
    try:
        client.list_topics(topic="", timeout=timeout_s)
    except KafkaException as error:
        client.poll(0)  # calls back with what librdkafka has to say
        why = reason.text or _text(error.args[0])
        raise BrokerUnavailable(f"no broker answers at {brokers} ({why}); is one running, and is the address right?") from None


def partition_leaders(client: Producer, topic: str, *, timeout_s: float) -> dict[int, int]:
    """The leaders of a topic's partitions, -1 where there is none; nothing if the topic is not there, or no broker answers."""
    try:
        found = client.list_topics(topic, timeout=timeout_s).topics.get(topic)
    except KafkaException:
        return {}
    return {} if found is None else {partition: about.leader for partition, about in found.partitions.items()}


def is_unknown_partition(error: KafkaException) -> bool:
    """Whether a message was for a partition that its topic does not have."""
    return bool(error.args[0].code() == LibrdkafkaError._UNKNOWN_PARTITION)


def key_hasher() -> Callable[[bytes, int], int]:
    """What gives the partition of a key, of so many: librdkafka's own murmur2, or where its library does not show it, ours in Python."""
    try:
        murmur2 = ctypes.PyDLL(cimpl.__file__).rd_kafka_msg_partitioner_murmur2
    except (OSError, AttributeError):
        return key_partition
    murmur2.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    murmur2.restype = ctypes.c_int32
    return lambda key, count: murmur2(None, key, len(key), count, None, None)


def is_purged(error: LibrdkafkaError) -> bool:
    """Whether a message was not delivered because its transaction was aborted."""
    return error.code() in (LibrdkafkaError._PURGE_QUEUE, LibrdkafkaError._PURGE_INFLIGHT)


def delivery_failure(error: Any, message: Any) -> DeliveryFailed:
    """Why a message was not delivered."""
    if error.code() in _UNKNOWN_TOPIC_CODES:
        return DeliveryFailed(f"there is no topic {message.topic()!r}, and the brokers do not create it: create it first")
    if error.code() == LibrdkafkaError.MSG_SIZE_TOO_LARGE:
        return DeliveryFailed(
            f"a message of {_size(message.value(), message.key())} bytes is more than the topic {message.topic()!r} takes: raise its"
            " max.message.bytes, which holds for a batch after compression, or send less at once"
        )
    if error.code() == LibrdkafkaError._MSG_TIMED_OUT:
        return DeliveryFailed(f"a message for {message.topic()!r} was not taken in time; are the brokers up?")
    return DeliveryFailed(f"a message for {message.topic()!r} was refused: {_text(error)}")


def send_failure(error: KafkaException, topic: str, message: Message | Payload, options: Settings) -> DeliveryFailed:
    """Why a message was not even queued."""
    if error.args[0].code() == LibrdkafkaError.MSG_SIZE_TOO_LARGE:
        size = _size(message.payload, message.key) if isinstance(message, Message) else _size(message)
        limit = options.get("message.max.bytes", _LARGEST_MESSAGE)
        return DeliveryFailed(
            f"a message of {size} bytes for {topic!r} is more than this producer sends: its message.max.bytes is {limit}."
            " Give a larger one in options=, and see that the topic's max.message.bytes is as large"
        )
    return DeliveryFailed(f"a message for {topic!r} was refused: {_text(error.args[0])}")


@contextmanager
def raising_plainly() -> Iterator[None]:
    """Raise librdkafka's own error where it comes out as a `SystemError`: confluent-kafka goes on to call back while a fatal one is set."""
    try:
        yield
    except SystemError as error:
        if not isinstance(error.__cause__, KafkaException):
            raise
        raise error.__cause__ from None


def is_out_of_turn(error: KafkaException) -> bool:
    """Whether a call was refused because of the state that the transaction is in, before anything was sent."""
    return bool(error.args[0].code() == LibrdkafkaError._STATE)


def group_metadata(consumer: Consumer) -> bytes:
    """Group, generation and member of a consumer, as its offsets in a transaction are fenced by them (KIP-447)."""
    metadata: bytes = consumer.consumer_group_metadata()
    return metadata


def handed_out(consumer: Consumer) -> list[TopicPartition]:
    """Where a consumer goes on reading: after what it handed out last."""
    return [place for place in consumer.position(consumer.assignment()) if place.offset >= 0]


def named_group_metadata(brokers: str, group: str, options: Settings) -> bytes:
    """The same of a group of which only the name is known: nothing but the transactional id fences its offsets."""
    consumer = open_consumer(brokers, group, options)
    try:
        return group_metadata(consumer)
    finally:
        consumer.close()


def transaction_failure(error: KafkaException, doing: str, transactional_id: str) -> MillstreamError:
    """Why a call about a transaction failed."""
    about = error.args[0]
    why = _text(about)
    if about.code() in _FENCED_CODES:
        return ProducerFenced(
            f"{doing}: another producer with transactional_id={transactional_id!r} was made since, the broker aborted a transaction that"
            f" was open for longer than transaction_timeout_s, or somebody did with `millstream txn abort`; this producer cannot"
            f" go on ({why}). Make a new one if no other is at work"
        )
    if about.code() == LibrdkafkaError.INVALID_TRANSACTION_TIMEOUT:
        return UsageError(
            "transaction_timeout_s is more than the brokers allow: give less, or raise their transaction.max.timeout.ms (15 min by default)"
        )
    if about.code() in _NO_TRANSACTIONS_CODES:
        return ClientError(f"{doing}: these brokers do not give this client transactions: {why}")
    if about.txn_requires_abort():
        return TransactionAborted(f"{doing}: {why}. The transaction was aborted, so nothing of it is visible; begin it again")
    return ClientError(f"{doing}: {why}")


def fatal_failure(error: KafkaException) -> ClientError:
    """Why a producer cannot go on."""
    return ClientError(f"this producer cannot go on, make a new one: {_text(error.args[0])}")


def _size(*parts: Payload) -> int:
    return sum(len(part.encode() if isinstance(part, str) else part) for part in parts if part is not None)


def consume_failure(error: Any, message: Any) -> MillstreamError | None:
    """What an event among the messages means; None for what passes by itself (a broker that is away is looked for again)."""
    where = f"{message.topic()}-{message.partition()}"
    if error.code() in (LibrdkafkaError._AUTO_OFFSET_RESET, LibrdkafkaError.OFFSET_OUT_OF_RANGE):
        return OffsetExpired(f"the offset to read next from {where} is not there any more ({_text(error)}): rewind, or choose expired=")
    if error.code() in _UNKNOWN_TOPIC_CODES:
        return UnknownTopicOrPartition(f"there is no {where} any more: was the topic deleted?")
    if error.fatal() or not (error.retriable() or error.code() in _GONE_CODES or error.code() == LibrdkafkaError._PARTITION_EOF):
        return ClientError(f"reading {where} failed: {_text(error)}")
    _log.warning("reading %s: %s", where, _text(error))
    return None


def _open(kind: Any, settings: dict[str, Any]) -> Any:
    try:
        return kind(settings)
    except KafkaException as error:
        if error.args[0].code() in _UNUSABLE_SETTING_CODES:
            raise UsageError(f"librdkafka does not take these options: {_text(error.args[0])}") from error
        raise ClientError(f"librdkafka could not be started: {_text(error.args[0])}") from error


def _text(error: Any) -> str:
    return str(error.str()).removeprefix("Broker: ").removeprefix("Local: ").rstrip(".")
