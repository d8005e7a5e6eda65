from collections.abc import Callable
from itertools import islice

import pytest

from millstream.errors import CorruptMessage, InvalidRecord, KafkaError
from millstream.wire.batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    checked_header,
    compute_crc,
    read_header,
    split_batches,
    with_log_append_time,
)
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, decode_records, encode_batch, walk_records
from tests.unit.wire.recompression import recompress

RECORDS = [Record(10, 1_000, b"k", b"v"), Record(11, 999, None, None, (("h", b"x"), ("n", None))), Record(15, 1_002, b"", b"")]


def with_right_crc(batch: bytes | bytearray) -> bytes:
    repaired = bytearray(batch)
    repaired[8:12] = (len(repaired) - 12).to_bytes(4, "big")
    repaired[17:21] = compute_crc(repaired).to_bytes(4, "big")
    return bytes(repaired)


def test_the_header_says_what_is_inside() -> None:
    header = read_header(encode_batch(RECORDS, leader_epoch=4, producer=ProducerStamp(7, 2, 30), flags=TRANSACTIONAL | CONTROL))
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (10, 5, 3)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 1_002)
    assert (header.leader_epoch, header.producer_id, header.producer_epoch, header.base_sequence) == (4, 7, 2, 30)
    assert header.is_transactional
    assert header.is_control


def test_compaction_keeps_the_offset_range_of_a_batch_that_lost_records() -> None:
    batch = encode_batch(RECORDS[1:2], base_offset=10, last_offset_delta=5)
    assert (read_header(batch).base_offset, read_header(batch).last_offset) == (10, 15)
    assert list(decode_records(batch)) == RECORDS[1:2]


def test_a_batch_may_have_lost_all_its_records() -> None:
    batch = encode_batch([], base_offset=10, last_offset_delta=5, max_timestamp=1_002)
    assert list(decode_records(batch)) == []
    assert read_header(batch).last_offset == 15


def test_log_append_time_holds_for_every_record() -> None:
    batch = with_log_append_time(encode_batch(RECORDS), now_ms=5_000)
    assert read_header(batch).attributes & LOG_APPEND_TIME
    assert [record.timestamp for record in decode_records(batch)] == [5_000] * 3


def test_recompression_changes_nothing_but_the_codec() -> None:
    batch = encode_batch(RECORDS, leader_epoch=4, producer=ProducerStamp(7, 2, 30), flags=TRANSACTIONAL)
    again = recompress(batch, Codec.ZSTD)
    before, after = read_header(batch), read_header(again)
    assert after.codec == Codec.ZSTD
    assert before == after._replace(length=before.length, crc=before.crc, attributes=before.attributes)
    assert recompress(again, Codec.NONE) == batch


@pytest.mark.parametrize(
    "damage",
    [
        lambda batch: batch[:60],
        lambda batch: batch[:-1],
        lambda batch: batch + b"x",
        lambda batch: batch[:16] + b"\x01" + batch[17:],
        lambda batch: batch[:-1] + b"!",
    ],
    ids=["shorter than its header", "cut off", "with something after it", "of an old format", "with a wrong CRC"],
)
def test_a_batch_is_corrupt_when(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(CorruptMessage):
        checked_header(damage(encode_batch(RECORDS)))


def payload_of(*records: bytes, count: int | None = None) -> bytes:
    header = bytearray(encode_batch([Record(0, 0, None, None), Record(9, 0, None, None)])[:HEADER_SIZE])
    header[57:61] = (len(records) if count is None else count).to_bytes(4, "big", signed=True)
    return with_right_crc(bytes(header) + b"".join(records))


GOOD = b"\x0c\x00\x00\x00\x01\x01\x00"


@pytest.mark.parametrize(
    "batch",
    [
        payload_of(GOOD, count=2),
        payload_of(GOOD, count=-1),
        payload_of(GOOD, count=2**31 - 1),
        payload_of(GOOD, b"rest", count=1),
        payload_of(GOOD, GOOD),
        payload_of(b"\x0c\x00\x00\x28\x01\x01\x00"),
        payload_of(b"\x0e\x00\x00\x00\x01\x01\x00\x00"),
        payload_of(b"\x0c\x00\x00\x00\x05\x01\x00"),
        payload_of(b"\x0c\x00\x00\x00\x01\x01\x02"),
        payload_of(b"\x10\x00\x00\x00\x01\x01\x02\x01\x00"),
        payload_of(b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01"),
        payload_of(b"\x7f\x00\x00\x00\x01\x01\x00"),
        payload_of(b"\xff" * 12),
    ],
    ids=[
        "fewer records than counted",
        "a negative count",
        "a huge count",
        "bytes after the last record",
        "the same offset twice",
        "an offset past the last",
        "a record longer than its fields",
        "a negative key length",
        "more headers than bytes",
        "a header without key",
        "a header key that is not text",
        "a negative record length",
        "a varint without end",
    ],
)
def test_a_batch_with_a_right_crc_is_still_refused_for(batch: bytes) -> None:
    with pytest.raises(InvalidRecord):
        list(decode_records(batch))


def test_a_record_that_ends_behind_its_batch_is_not_handed_out() -> None:
    with pytest.raises(InvalidRecord):
        next(decode_records(payload_of(b"\x18\x00\x00\x00\x01\x0cvv")))


def test_the_smallest_record_is_fine() -> None:
    assert list(decode_records(payload_of(GOOD))) == [Record(0, 0, None, None)]


def test_a_batch_with_an_unknown_codec_is_refused() -> None:
    batch = bytearray(encode_batch(RECORDS))
    batch[22] |= 7
    with pytest.raises(KafkaError):
        list(decode_records(with_right_crc(batch)))


def test_a_batch_with_an_impossible_length_does_not_stop_the_world() -> None:
    batch = bytearray(encode_batch(RECORDS))
    batch[8:12] = b"\xff\xff\xff\xf0"
    with pytest.raises(CorruptMessage):
        list(split_batches(batch))


TIMES = [100, 90, 300, 120, 5_000_000_000, 110]


def timed(*, flags: int = 0) -> tuple[bytes, BatchHeader]:
    batch = encode_batch([Record(10 + 2 * number, time, None, b"v") for number, time in enumerate(TIMES)], flags=flags)
    return batch[HEADER_SIZE:], read_header(batch)


def found(timestamp: int, *, from_offset: int = 0, at_most: int = 100) -> tuple[int, int] | None:
    records = walk_records(*timed(), from_timestamp=timestamp)
    while walked := list(islice(records, at_most)):
        for offset, time, *_ in walked:
            if offset >= from_offset:
                return time, offset
    return None


@pytest.mark.parametrize("at_most", [1, 2, 4, 100])
def test_first_record_that_is_late_enough_is_found_in_slices_of_any_size(at_most: int) -> None:
    for timestamp, expected in ((0, (100, 10)), (101, (300, 14)), (301, (5_000_000_000, 18)), (5_000_000_001, None)):
        assert found(timestamp, at_most=at_most) == expected
    assert found(95, from_offset=11, at_most=at_most) == (300, 14)
    assert found(95, from_offset=19, at_most=at_most) == (110, 20)


@pytest.mark.parametrize("payload", [b"", bytes(60), b"\xff" * 60, b"\x14" + bytes(3), b"\x80" * 60])
def test_broken_records_are_refused_also_where_they_are_stepped_over(payload: bytes) -> None:
    with pytest.raises(InvalidRecord):
        list(walk_records(payload, timed()[1], from_timestamp=1 << 60))


def test_offset_outside_the_batch_is_refused() -> None:
    record = b"\x0e\x00\x00\x7e\x01\x02v\x00"
    with pytest.raises(InvalidRecord, match="in a batch that ends at"):
        list(walk_records(record, timed()[1]._replace(record_count=1), from_timestamp=0))


def test_more_records_than_bytes_are_refused_before_any_is_read() -> None:
    payload, header = timed()
    for count in (-1, 1 << 30):
        with pytest.raises(InvalidRecord):
            walk_records(payload, header._replace(record_count=count))
