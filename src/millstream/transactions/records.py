"""The records of `__transaction_state`, in Kafka's formats: one per transactional id, the latest counts.

    key     version 0: 2 bytes version, string transactional id
    value   2 bytes version, then the fields of `TransactionLogValue`; null deletes the id
            version 0 has no tagged fields; version 1, which is written here as by Kafka 4.2 (transaction.version 1 and 2), is flexible:
            tag 0 the producer id before the present one, tag 1 the one that follows when the markers are written, tag 2 the
            transaction version of the client that caused the state

The epoch before the present one is not written, as in Kafka: what depends on it does not survive a restart (`Transaction.last_epoch`).
"""

from struct import Struct
from typing import Final, NamedTuple

from millstream.coordinator_shard import CoordinatorRecord
from millstream.errors import MalformedFrame
from millstream.topic_partition import TopicPartition, by_topic
from millstream.transactions.transaction import NO_PRODUCER, State, Transaction
from millstream.wire.message_reader import Budget, message_reader
from millstream.wire.primitives import (
    INT16,
    INT64,
    compact_string,
    nullable_string,
    read_int16,
    read_string,
    tagged_fields,
    unsigned_varint,
)
from millstream.wire.schema import STRUCTURE, Field, Layout, schema_at

KEY_VERSION: Final = 0
VALUE_VERSION: Final = 1
MAX_PARTITIONS: Final = 1_000_000
_STATUS: Final = Struct(">hqhib")
"""Version, producer id and epoch, time-out, state."""
_TIMES: Final = Struct(">qq")


class TransactionPartitions(NamedTuple):
    """The partitions of one topic."""

    topic: str = ""
    partition_ids: tuple[int, ...] = ()


class TransactionLogValue(NamedTuple):
    """The value of a record."""

    producer_id: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    producer_epoch: int = -1
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    transaction_partitions: tuple[TransactionPartitions, ...] | None = None
    transaction_last_update_timestamp_ms: int = -1
    transaction_start_timestamp_ms: int = -1
    client_transaction_version: int = 0


_PARTITIONS: Final = Layout(
    TransactionPartitions, (Field("topic", "string", 0, 1), Field("partition_ids", "int32", 0, 1, default=(), is_array=True))
)
_VALUE: Final = Layout(
    TransactionLogValue,
    (
        Field("producer_id", "int64", 0, 1),
        Field("previous_producer_id", "int64", 1, 1, default=-1, tag=0),
        Field("next_producer_id", "int64", 1, 1, default=-1, tag=1),
        Field("producer_epoch", "int16", 0, 1),
        Field("transaction_timeout_ms", "int32", 0, 1),
        Field("transaction_status", "int8", 0, 1),
        Field("transaction_partitions", STRUCTURE, 0, 1, is_array=True, nullable_from=0, nested=_PARTITIONS),
        Field("transaction_last_update_timestamp_ms", "int64", 0, 1),
        Field("transaction_start_timestamp_ms", "int64", 0, 1),
        Field("client_transaction_version", "int16", 1, 1, default=0, tag=2),
    ),
)


def encode_key(transactional_id: str) -> bytes:
    """The key of the records of a transactional id."""
    return INT16.pack(KEY_VERSION) + nullable_string(transactional_id)


def decode_key(key: bytes) -> str | None:
    """The transactional id; None if the record is of a kind that is not known. MalformedFrame if it makes no sense."""
    version, position = read_int16(key, 0)
    return read_string(key, position, flexible=False)[0] if version == KEY_VERSION else None


def encode_record(transaction: Transaction) -> CoordinatorRecord:
    """The record that says what has become of a transaction."""
    return CoordinatorRecord(encode_key(transaction.transactional_id), _encode_value(transaction))


def _encode_value(transaction: Transaction) -> bytes:
    """The fields of `_VALUE`, one after the other: three records are written for each transaction."""
    status = _STATUS.pack(VALUE_VERSION, transaction.producer_id, transaction.epoch, transaction.timeout_ms, transaction.state)
    if transaction.state is State.EMPTY:
        partitions = b"\0"
    else:
        topics = [_encode_partitions(topic, indexes) for topic, indexes in by_topic(transaction.partitions).items()]
        partitions = unsigned_varint(len(topics) + 1) + b"".join(topics)
    tags: list[tuple[int, bytes]] = []
    if transaction.previous_producer_id != NO_PRODUCER:
        tags.append((0, INT64.pack(transaction.previous_producer_id)))
    if transaction.next_producer_id != NO_PRODUCER:
        tags.append((1, INT64.pack(transaction.next_producer_id)))
    if transaction.client_version:
        tags.append((2, INT16.pack(transaction.client_version)))
    return status + partitions + _TIMES.pack(transaction.update_ms, transaction.start_ms) + tagged_fields(tags)


def _encode_partitions(topic: str, indexes: list[int]) -> bytes:
    return compact_string(topic) + unsigned_varint(len(indexes) + 1) + Struct(f">{len(indexes)}i").pack(*indexes) + b"\0"


def encode_tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that says that nothing is known of a transactional id any more."""
    return CoordinatorRecord(encode_key(transactional_id), None)


def decode_value(transactional_id: str, value: bytes) -> Transaction:
    """The transaction that a record says; MalformedFrame if it makes no sense."""
    version, position = read_int16(value, 0)
    if not 0 <= version <= VALUE_VERSION:
        raise MalformedFrame(f"the state of transactional id {transactional_id!r} has version {version}; known are 0 to {VALUE_VERSION}")
    read = message_reader(schema_at(_VALUE, version, is_flexible=version >= 1))
    found: TransactionLogValue = read(memoryview(value), position, Budget(MAX_PARTITIONS))[0]
    try:
        state = State(found.transaction_status)
    except ValueError:
        raise MalformedFrame(f"transactional id {transactional_id!r} is in state {found.transaction_status}, which is none") from None
    partitions = (TopicPartition(topic, index) for topic, indexes in found.transaction_partitions or () for index in indexes)
    return Transaction(
        transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        state,
        frozenset(partitions),
        start_ms=found.transaction_start_timestamp_ms,
        update_ms=found.transaction_last_update_timestamp_ms,
        previous_producer_id=found.previous_producer_id,
        next_producer_id=found.next_producer_id,
        client_version=found.client_transaction_version,
    )
