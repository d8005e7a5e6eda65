from collections.abc import Callable

import pytest

from millstream.errors import CorruptMessage, InvalidRecord, KafkaError
from millstream.wire.batch import CONTROL, HEADER_SIZE, LOG_APPEND_TIME, TRANSACTIONAL, compute_crc, read_header, with_log_append_time
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, check_batch, decode_records, encode_batch, split_batches
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
        check_batch(damage(encode_batch(RECORDS)))


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
