import os
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from millstream.log.config import LogConfig
from millstream.log.records.batch_check import check_batch, check_copied_batches, check_first_bytes
from millstream.wire.batch import read_header
from millstream.wire.compression import Codec, compress
from tests.batches import encode_batch, encode_block, encode_record, varint
from tests.unit.log.conftest import NOW_MS

GOOD = encode_batch([b"one", b"two"], timestamp=NOW_MS)


def check(batch: bytes, **options: object) -> None:
    config = LogConfig.of({name.replace("_", "."): value for name, value in options.items()})
    check_batch(batch, config, now_ms=NOW_MS)


def batch(**fields: int) -> bytes:
    return encode_batch([b"one", b"two"], keys=None, **{"timestamp": NOW_MS} | fields)


def test_good_batch_passes_and_its_header_comes_back() -> None:
    header = check_batch(memoryview(GOOD), LogConfig(), now_ms=NOW_MS)
    assert (header.record_count, header.max_timestamp) == (2, NOW_MS)


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (b"", InvalidRecord),
        (GOOD[:11], InvalidRecord),
        (GOOD[:16], InvalidRecord),
        (bytes(12), CorruptMessage),
        (bytes(61), CorruptMessage),
        (GOOD[:40], InvalidRecord),
        (GOOD[:16] + b"\x01" + GOOD[17:40], InvalidRecord),
        (GOOD[:-1], InvalidRecord),
        (GOOD + b"\x00", CorruptMessage),
        (GOOD + GOOD, InvalidRecord),
        (GOOD + bytes(61), CorruptMessage),
        (batch(magic=1), InvalidRecord),
        (batch(magic=3), CorruptMessage),
        (batch(crc=1), CorruptMessage),
        (batch(length=-5), CorruptMessage),
        (batch(length=14), CorruptMessage),
        (batch(length=14)[:26], CorruptMessage),
        (batch(length=1 << 20), InvalidRecord),
        (batch(record_count=3), InvalidRecord),
        (batch(record_count=0, last_offset_delta=-1), InvalidRecord),
        (batch(record_count=-1, last_offset_delta=-2), InvalidRecord),
        (batch(last_offset_delta=0), InvalidRecord),
        (batch(base_offset=5), InvalidRecord),
        (batch(attributes=0x20), InvalidRecord),
        (batch(attributes=0x08), InvalidTimestamp),
        (batch(attributes=5), UnsupportedCompressionType),
        (batch(producer_id=1, producer_epoch=0, base_sequence=-1), InvalidRecord),
        (batch(producer_id=1, producer_epoch=-1, base_sequence=0), InvalidRecord),
        (batch(timestamp=NOW_MS + 3_600_001), InvalidTimestamp),
    ],
)
def test_each_mistake_has_kafkas_error(made: bytes, error: type[KafkaError]) -> None:
    with pytest.raises(error):
        check(made)


def test_too_large_for_the_topic_or_for_a_segment() -> None:
    with pytest.raises(MessageTooLarge):
        check(GOOD, max_message_bytes=len(GOOD) - 1)
    with pytest.raises(RecordListTooLarge):
        check(GOOD, segment_bytes=len(GOOD) - 1)
    check(GOOD, max_message_bytes=len(GOOD), segment_bytes=len(GOOD))


def test_timestamps_are_bounded_as_the_topic_says() -> None:
    with pytest.raises(InvalidTimestamp):
        check(batch(timestamp=NOW_MS - 11), message_timestamp_before_max_ms=10)
    check(batch(timestamp=NOW_MS - 10), message_timestamp_before_max_ms=10)
    check(batch(timestamp=-1, max_timestamp=-1), message_timestamp_before_max_ms=10)


def test_with_the_brokers_time_the_producers_does_not_matter() -> None:
    check(batch(timestamp=NOW_MS + 10**9), message_timestamp_type="LogAppendTime")
    check(batch(attributes=0x08), message_timestamp_type="LogAppendTime")


# -- the first bytes: what producers write is let through, what no reader can read is not

REAL_CODECS = [codec for codec in Codec if codec is not Codec.NONE]
VALUES = st.lists(st.none() | st.binary(max_size=300) | st.integers(0, 40_000).map(bytes), min_size=1, max_size=40)


def block(records: bytes, *, count: int = 2, codec: int = 0) -> bytes:
    return encode_block(records, count, timestamp=0, max_timestamp=0, attributes=codec)


def check_first(batch: bytes) -> None:
    for given_as in (batch, memoryview(batch), bytearray(batch)):
        check_first_bytes(given_as, read_header(batch), size_bytes=len(batch))


@given(VALUES)
def test_what_producers_write_is_let_through(values: list[bytes | None]) -> None:
    records = b"".join(encode_record(number, value) for number, value in enumerate(values))
    for codec in Codec:
        check_first(block(compress(records, codec), count=len(values), codec=codec))
    check_first(block(bytes(cramjam.snappy.compress_raw(records)), count=len(values), codec=Codec.SNAPPY))
    check_first(block(zlib.compress(records, 1, 31), count=len(values), codec=Codec.GZIP))


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_records_that_are_not_compressed_as_they_say_are_refused(codec: Codec) -> None:
    records = b"".join(encode_record(number, os.urandom(50)) for number in range(10))
    others = [compress(records, other) for other in Codec if other is not codec]
    for wrong in (*others, b"\xff" * 300, bytes(300), b"", compress(records, codec)[:2]):
        with pytest.raises(InvalidRecord, match=f"compressed by {codec.name.lower()}, and they are not"):
            check_first(block(wrong, codec=codec))


@pytest.mark.parametrize(
    "records",
    [
        b"\xff" * 300,
        b"",
        encode_record(0, b"v") + b"\x00" * 4,
        varint(-9) + bytes(30),
        varint(200) + bytes(100),
        varint(9_000) + bytes(100),
        varint(3_000_000) + bytes(100),
        b"\x80",
    ],
)
def test_records_that_cannot_be_are_refused(records: bytes) -> None:
    with pytest.raises(InvalidRecord):
        check_first(block(records))


@pytest.mark.parametrize("size", [0, 50, 5_000, 3_000_000])
def test_a_single_record_has_to_fill_its_batch(size: int) -> None:
    record = encode_record(0, bytes(size))
    check_first(block(record, count=1))
    for wrong in (record + b"\x00", record[:-1]):
        with pytest.raises(InvalidRecord):
            check_first(block(wrong, count=1))


@given(st.binary(max_size=80), st.integers(1, 10), st.integers(0, 4))
def test_any_bytes_are_let_through_or_refused(records: bytes, count: int, codec: int) -> None:
    try:
        check_first(block(records, count=count, codec=codec))
    except InvalidRecord:
        return


# -- what a leader sent

ONE = encode_batch([b"a", b"b"], base_offset=10, timestamp=1)
TWO = encode_batch([b"c"], base_offset=12, timestamp=1)


def test_whole_batches_are_taken_and_the_cut_off_one_is_left() -> None:
    headers = check_copied_batches(ONE + TWO + TWO[:-1], log_end_offset=10)
    assert [header.base_offset for header in headers] == [10, 12]
    assert check_copied_batches(ONE[:50], log_end_offset=10) == []
    assert check_copied_batches(b"", log_end_offset=10) == []


def test_offsets_may_leave_holes_but_not_go_back() -> None:
    assert len(check_copied_batches(ONE, log_end_offset=3)) == 1
    with pytest.raises(CorruptMessage, match="had to follow"):
        check_copied_batches(ONE, log_end_offset=11)
    with pytest.raises(CorruptMessage, match="had to follow"):
        check_copied_batches(TWO + ONE, log_end_offset=10)


def test_damage_on_the_way_is_noticed() -> None:
    for position in (16, 30, len(ONE) - 1):
        damaged = bytearray(ONE)
        damaged[position] ^= 1
        with pytest.raises(CorruptMessage):
            check_copied_batches(damaged, log_end_offset=10)
