"""What the broker looks at before it appends a producer's batch: the header, and the first bytes of the records.

Pure. Refusals are Kafka's: the same error for the same mistake wherever Kafka looks too. Kafka also decompresses and walks each batch; a
batch with a right CRC and a wrong inside is its producer's own making and has to be harmless here, unless the first bytes tell
(`first_bytes`). Where the topic wants the records looked at (compaction needs keys, recompression needs everything), see `record_check`.
"""

from millstream.buffer import Buffer
from millstream.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    RecordListTooLarge,
    TransactionalIdAuthorizationFailed,
    UnsupportedCompressionType,
)
from millstream.log.config import LogConfig
from millstream.log.records.batch_framing import why_not_one_batch
from millstream.log.records.first_bytes import check_first_bytes
from millstream.wire.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    compute_crc,
    read_header,
)

ZSTD = 4
_UNUSUAL = CONTROL | TRANSACTIONAL | LOG_APPEND_TIME | ZSTD
"""Attributes that need a closer look; the bit of zstd (4) is also in the codecs that do not exist (5 to 7)."""


def check_batch(batch: Buffer, config: LogConfig, *, now_ms: int) -> BatchHeader:
    """The header of a batch that may be appended; raises what the producer has to be told."""
    size = len(batch)
    if size < HEADER_SIZE:
        raise _not_one_batch(batch)
    header = read_header(batch)
    if header.magic != MAGIC or header.length + LENGTH_OVERHEAD != size:
        raise _not_one_batch(batch)
    if size > config.max_message_bytes:
        raise MessageTooLarge(f"the batch has {size} bytes, max.message.bytes allows {config.max_message_bytes}")
    if size > config.segment_bytes:
        raise RecordListTooLarge(f"the batch has {size} bytes, a segment only {config.segment_bytes}")
    if compute_crc(batch) != header.crc:
        raise CorruptMessage("the CRC of the batch does not match its bytes")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(f"the batch claims {header.record_count} records and a last offset delta of {header.last_offset_delta}")
    if header.base_offset != 0:
        raise InvalidRecord(f"the base offset of a produced batch must be 0, it is {header.base_offset}")
    if header.attributes & _UNUSUAL:
        _check_attributes(header, config)
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecord(f"sequence {header.base_sequence}, epoch {header.producer_epoch} with producer id {header.producer_id}")
    check_first_bytes(batch, header, size_bytes=size)
    if not config.is_log_append_time:
        _check_timestamps(header, config, now_ms=now_ms)
    return header


def check_own_batch(batch: Buffer, config: LogConfig) -> BatchHeader:
    """The header of a batch that the broker itself made: trusted, and limited by the segment alone."""
    if len(batch) > config.segment_bytes:
        raise RecordListTooLarge(f"the batch has {len(batch)} bytes, a segment only {config.segment_bytes}")
    return read_header(batch)


def _check_attributes(header: BatchHeader, config: LogConfig) -> None:
    codec = header.attributes & CODEC_MASK
    if codec > ZSTD:
        raise UnsupportedCompressionType(f"there is no compression codec {codec}")
    if header.is_transactional:
        raise TransactionalIdAuthorizationFailed("a transactional batch in a request without a transactional id")
    if header.is_control:
        raise InvalidRecord("clients may not write control records")
    if header.is_log_append_time and not config.is_log_append_time:
        raise InvalidTimestamp("a producer may not set the timestamp type to LogAppendTime")


def _check_timestamps(header: BatchHeader, config: LogConfig, *, now_ms: int) -> None:
    if header.max_timestamp - now_ms > config.message_timestamp_after_max_ms and header.max_timestamp != NO_TIMESTAMP:
        raise InvalidTimestamp(
            f"timestamp {header.max_timestamp} is more than {config.message_timestamp_after_max_ms} ms after the broker's time {now_ms}"
        )
    if now_ms - header.base_timestamp > config.message_timestamp_before_max_ms and header.base_timestamp != NO_TIMESTAMP:
        raise InvalidTimestamp(
            f"timestamp {header.base_timestamp} is more than {config.message_timestamp_before_max_ms} ms before the broker's time {now_ms}"
        )


def _not_one_batch(batch: Buffer) -> KafkaError:
    return why_not_one_batch(batch) or CorruptMessage(f"{len(batch)} bytes are too few for a record batch")
