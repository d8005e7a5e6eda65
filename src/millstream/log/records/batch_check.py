"""What the log looks at before it appends batches: of a producer, of the broker itself, of a leader, of a mirror.

Pure. Of a producer's batch that is the header, the CRC and the first bytes of the records. Refusals are Kafka's: the same error for the
same mistake wherever Kafka looks too. Kafka also decompresses and walks each batch; a batch with a right CRC and a wrong inside is its
producer's own making and has to be harmless here, unless the first bytes show it. Where the topic wants the records looked at (compaction
needs keys, recompression needs everything), see `record_check`.

The first bytes are looked at for every batch, so it costs well below a microsecond. It finds what a broken producer sends in practice:
another codec than it says, bytes that are no records at all, a count that cannot be. It does not find damage further inside: a compressed
block that breaks off in the middle, a second record whose sizes do not add up. `check.records` does (docs/adr/0021).

    gzip     1f 8b 08
    snappy   xerial's magic, or of a raw block its size without compression (a varint), and a literal: nothing can be copied yet
    lz4      04 22 4d 18
    zstd     28 b5 2f fd
    none     the size of the first record, which has to fit; of a single one, exactly
"""

from typing import Final

from millstream.buffer import Buffer
from millstream.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MalformedFrame,
    MessageTooLarge,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from millstream.log.config import LogConfig
from millstream.wire.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LENGTH_POSITION,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    BatchHeader,
    compute_crc,
    read_header,
    split_batches,
)
from millstream.wire.compression import Codec
from millstream.wire.primitives import INT32, read_unsigned_varint
from millstream.wire.records import SMALLEST_RECORD

_UNUSUAL: Final = CONTROL | LOG_APPEND_TIME | int(Codec.ZSTD)
"""Attributes that need a closer look; the bit of zstd (4) is also in the codecs that do not exist (5 to 7)."""
_SMALLEST_LENGTH: Final = 14
"""That of a message of the oldest format, which all formats are measured by."""
_MAGICS: Final = (b"", b"\x1f\x8b\x08", b"\x82SNAPPY\x00", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd")
"""By the number of the codec."""
_ENDS: Final = tuple(HEADER_SIZE + len(magic) for magic in _MAGICS)
_SNAPPY: Final = int(Codec.SNAPPY)
_MOST_SNAPPY_UNFOLDS: Final = 64
"""A copy of 64 bytes takes three."""
_SNAPPY_SLACK: Final = 32
"""Beside a sixth, by so much a block may be larger than what is in it."""


def check_batch(batch: Buffer, config: LogConfig, *, now_ms: int) -> BatchHeader:
    """The header of a batch that may be appended; raises the error for its producer."""
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


def check_copied_batches(data: Buffer, *, log_end_offset: int, sender: str = "leader") -> list[BatchHeader]:
    """The headers of batches that keep their offsets: those that a leader sent to its follower, or a mirror copied.

    A fetch may end inside a batch; that piece is left out. Everything before it has to be whole, with a right CRC and offsets that go up
    from the end of the log; otherwise nothing of it is written.
    """
    headers: list[BatchHeader] = []
    next_offset = log_end_offset
    for header, batch in split_batches(data):
        if header.magic != MAGIC or compute_crc(batch) != header.crc:
            raise CorruptMessage(f"the {sender} sent a damaged batch for offset {next_offset}: its format or its CRC is wrong")
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise CorruptMessage(f"the {sender} sent offset {header.base_offset} where {next_offset} or more had to follow")
        headers.append(header)
        next_offset = header.next_offset
    return headers


def why_not_one_batch(data: Buffer) -> KafkaError | None:
    """Kafka's word for what is wrong with the bytes of a partition as a whole; None if they are one batch of format 2 by its length.

    Kafka walks over the batches before it looks into the first one. What does not hold a whole batch holds none, and so breaks the rule of
    one batch per request (INVALID_RECORD); what cannot be walked over is CORRUPT_MESSAGE. In one thing we are stricter: bytes behind the
    batch that are no batch Kafka cuts off, here they are refused.
    """
    try:
        size = _first_size(data)
    except CorruptMessage as error:
        return error
    if size is None:
        return not_one_batch(f"a produce request must carry exactly one record batch per partition: {len(data)} bytes hold no whole one")
    if data[MAGIC_POSITION] != MAGIC:
        return not_one_batch(f"record batches must have format {MAGIC}, this one has {data[MAGIC_POSITION]}")
    if size == len(data):
        return None
    try:
        is_more = _first_size(memoryview(data)[size:]) is not None
    except CorruptMessage as error:
        return error
    if is_more:
        return not_one_batch("a produce request must carry exactly one record batch per partition, this one carries more")
    return CorruptMessage(f"the batch claims {size} bytes, {len(data)} were sent")


def not_one_batch(text: str) -> InvalidRecord:
    """The error for bytes that are none or several batches: about the request, before the partition was looked at."""
    error = InvalidRecord(text)
    error.is_of_request = True
    return error


def check_first_bytes(batch: Buffer, header: BatchHeader, *, size_bytes: int) -> None:
    """Raise `InvalidRecord` if the records cannot be what the header of their batch, of so many bytes, says."""
    codec = header.attributes & CODEC_MASK
    if codec:
        if batch[HEADER_SIZE : _ENDS[codec]] != _MAGICS[codec] and not (codec == _SNAPPY and _is_raw_snappy(batch, header.record_count)):
            raise InvalidRecord(f"the batch says that its records are compressed by {Codec(codec).name.lower()}, and they are not")
        return
    count = header.record_count
    left = size_bytes - HEADER_SIZE - count * SMALLEST_RECORD
    if left < 0:
        raise InvalidRecord(f"the batch claims {count} records, for which {-left} bytes are missing")
    size, start = batch[HEADER_SIZE], HEADER_SIZE + 1
    if size >= 0x80:
        more = batch[start]
        size, start = (size + ((more - 1) << 7), start + 1) if more < 0x80 else _size_at(batch)
    left = size_bytes - start - (size >> 1)
    if (left and (left < 0 or count == 1)) or size & 1:
        raise InvalidRecord("the first record of the batch does not fit into it")


def _check_attributes(header: BatchHeader, config: LogConfig) -> None:
    codec = header.attributes & CODEC_MASK
    if codec > Codec.ZSTD:
        raise UnsupportedCompressionType(f"there is no compression codec {codec}")
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


def _first_size(data: Buffer) -> int | None:
    """How many bytes the first batch has; None if it is not whole, CorruptMessage if it cannot be one."""
    if len(data) < LENGTH_OVERHEAD:
        return None
    length: int = INT32.unpack_from(data, LENGTH_POSITION)[0]
    if length < _SMALLEST_LENGTH:
        raise CorruptMessage(f"a batch cannot have a length of {length}")
    if len(data) <= MAGIC_POSITION:
        return None
    if data[MAGIC_POSITION] > MAGIC:
        raise CorruptMessage(f"there are no record batches of format {data[MAGIC_POSITION]}")
    size = length + LENGTH_OVERHEAD
    return size if size <= len(data) else None


def _is_raw_snappy(batch: Buffer, record_count: int) -> bool:
    size, start = _size_at(batch)
    packed = len(batch) - start
    is_possible = record_count * SMALLEST_RECORD <= size <= _MOST_SNAPPY_UNFOLDS * packed and packed <= size + size // 6 + _SNAPPY_SLACK
    return is_possible and batch[start] & 3 == 0


def _size_at(batch: Buffer) -> tuple[int, int]:
    """The varint at the start of the records, as it stands, and the position after it; one that does not end is too large for anything."""
    try:
        return read_unsigned_varint(batch, HEADER_SIZE)
    except MalformedFrame:
        return 1 << 64, len(batch)
