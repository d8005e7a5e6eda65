"""The control batch that ends a transaction in one partition: one record, written by the broker when the coordinator has decided.

    attributes    control | transactional
    producer      id and epoch of the producer whose transaction it ends; no sequence
    key           2 bytes version 0, 2 bytes type: 0 abort, 1 commit
    value         2 bytes version 0, 4 bytes epoch of the coordinator

Readers check versions loosely, as Kafka does: a later version may have more fields behind these.
"""

from struct import Struct
from typing import Final, NamedTuple

from millstream.buffer import Buffer
from millstream.errors import KafkaError
from millstream.wire.batch import CODEC_MASK, CONTROL, FLAGS_POSITION, HEADER_SIZE, TRANSACTIONAL
from millstream.wire.records import ProducerStamp, Record, decode_records, encode_batch

KEY: Final = Struct(">hh")
VALUE: Final = Struct(">hi")
RECORD: Final = Struct(">5s hh s hi s")
"""The record as all brokers write it, which is read without a look at anything else."""
BEFORE_KEY: Final = bytes((2 * 16, 0, 0, 0, 2 * KEY.size))
"""The length of the rest, no attributes, the time and the offset of the batch, the length of the key."""
BEFORE_VALUE: Final = bytes((2 * VALUE.size,))
ABORT: Final = 0
COMMIT: Final = 1


class Marker(NamedTuple):
    """How a transaction ended, and the epoch of the coordinator that says so."""

    is_commit: bool
    coordinator_epoch: int


def marker_record(marker: Marker, *, offset: int, timestamp: int) -> Record:
    """The one record of a marker."""
    return Record(offset, timestamp, KEY.pack(0, marker.is_commit), VALUE.pack(0, marker.coordinator_epoch))


def encode_marker(marker: Marker, producer: ProducerStamp, *, timestamp: int, offset: int = 0) -> bytes:
    """The control batch for the end of a producer's transaction."""
    return encode_batch([marker_record(marker, offset=offset, timestamp=timestamp)], producer=producer, flags=CONTROL | TRANSACTIONAL)


def read_marker(batch: Buffer) -> Marker | None:
    """What a control batch says; None if it is no marker of a transaction, or has no record any more."""
    if len(batch) == HEADER_SIZE + RECORD.size and not batch[FLAGS_POSITION] & CODEC_MASK:
        before_key, _, kind, before_value, _, coordinator_epoch, _ = RECORD.unpack_from(batch, HEADER_SIZE)
        if (before_key, before_value) == (BEFORE_KEY, BEFORE_VALUE) and kind in (ABORT, COMMIT):
            return Marker(kind == COMMIT, coordinator_epoch)
    try:
        _, _, key, value, _ = next(decode_records(batch))
    except (KafkaError, StopIteration):
        return None
    if key is None or value is None or len(key) < KEY.size or len(value) < VALUE.size:
        return None
    kind = KEY.unpack_from(key)[1]
    return Marker(kind == COMMIT, VALUE.unpack_from(value)[1]) if kind in (ABORT, COMMIT) else None
