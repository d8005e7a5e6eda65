"""What compaction leaves of a batch, rule by rule."""

import pytest

from millstream.buffer import Buffer
from millstream.errors import InvalidRecord, KafkaError
from millstream.log.compaction.batch_cleaning import CleanedBatch, CleaningRules, clean_batch
from millstream.wire.batch import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, BatchHeader, read_header
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, decode_records, encode_batch

NOW_MS = 1_000_000
RETENTION_MS = 5000
TIMES = [NOW_MS - 300, NOW_MS - 100, NOW_MS - 200]
THREE = [Record(10 + number, TIMES[number], key, b"v%d" % number) for number, key in enumerate((b"a", b"b", b"c"))]


def clean(
    batch: bytes,
    latest: dict[bytes | None, int],
    *,
    latest_offset: int = 100,
    now_ms: int = NOW_MS,
    producers: dict[int, int] | None = None,
    is_last: bool = False,
) -> CleanedBatch:
    rules = CleaningRules({None: 2**63 - 1, **latest}, latest_offset, now_ms, RETENTION_MS, producers or {}, marker_epochs={})
    return clean_batch(read_header(batch), memoryview(batch), rules, is_last=is_last)


def header_of(content: Buffer | None) -> BatchHeader:
    assert content is not None
    return read_header(content)


def left_of(batch: bytes, latest: dict[bytes | None, int], **others: int) -> list[Record]:
    content = clean(batch, latest, **others).content  # type: ignore[arg-type]  # numbers only
    return [] if content is None else list(decode_records(content))


def test_a_batch_without_superseded_records_stays_byte_for_byte() -> None:
    batch = encode_batch(THREE, base_offset=10)
    left = clean(batch, {b"a": 10, b"b": 11})
    assert left.content is not None
    assert bytes(left.content) == batch
    assert (left.record_count, left.max_timestamp) == (3, NOW_MS - 100)


@pytest.mark.parametrize("codec", list(Codec))
def test_superseded_records_go_and_the_others_keep_offset_time_and_content(codec: Codec) -> None:
    batch = encode_batch(THREE, base_offset=10, codec=codec, leader_epoch=4, producer=ProducerStamp(7, 1, 30))
    left = clean(batch, {b"a": 50, b"b": 50})
    assert left.content is not None
    assert list(decode_records(left.content)) == [THREE[2]]
    before, after = read_header(batch), read_header(left.content)
    assert (after.base_offset, after.last_offset_delta, after.leader_epoch) == (10, 2, 4)
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (7, 1, 30)
    assert after.codec == before.codec
    assert after.record_count == 1
    assert after.max_timestamp == left.max_timestamp == NOW_MS - 200


def test_a_record_is_the_latest_of_its_key_by_offset() -> None:
    batch = encode_batch(THREE, base_offset=10)
    assert left_of(batch, {b"a": 10, b"b": 12, b"c": 12}) == [THREE[0], THREE[2]]


def test_records_beyond_what_was_learned_stay() -> None:
    batch = encode_batch(THREE, base_offset=10)
    assert left_of(batch, {b"a": 50, b"b": 50, b"c": 50}, latest_offset=10) == THREE[1:]


def test_records_without_a_key_go() -> None:
    batch = encode_batch([Record(0, 1, None, b"v"), Record(1, 1, b"k", b"v")])
    assert [record.offset for record in left_of(batch, {})] == [1]


def test_a_batch_without_records_goes() -> None:
    assert clean(encode_batch(THREE[:1], base_offset=10), {b"a": 50}).content is None


def test_the_last_batch_of_a_producer_stays_empty_with_its_sequence() -> None:
    batch = encode_batch(THREE, base_offset=10, codec=Codec.ZSTD, producer=ProducerStamp(7, 1, 30))
    latest: dict[bytes | None, int] = dict.fromkeys((b"a", b"b", b"c"), 50)
    assert clean(batch, latest, producers={7: 40, 8: 12}).content is None
    left = clean(batch, latest, producers={7: 12})
    assert left.content is not None
    assert list(decode_records(left.content)) == []
    header = read_header(left.content)
    assert (header.base_offset, header.last_offset, header.record_count, header.size_bytes) == (10, 12, 0, 61)
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (7, 1, 32)
    assert header.max_timestamp == NOW_MS - 100
    assert left.max_timestamp == -1
    again = clean(bytes(left.content), latest, producers={7: 12})
    assert again.content is not None
    assert bytes(again.content) == bytes(left.content)
    assert clean(bytes(left.content), latest).content is None


def test_the_last_batch_of_a_segment_stays_empty() -> None:
    left = clean(encode_batch(THREE, base_offset=10), dict.fromkeys((b"a", b"b", b"c"), 50), is_last=True)
    assert header_of(left.content).next_offset == 13


def test_a_tombstone_stays_until_its_horizon_which_the_first_compaction_sets() -> None:
    records = [Record(10, NOW_MS - 900, b"a", None), Record(11, NOW_MS - 500, b"b", b"v"), Record(12, NOW_MS - 700, b"c", b"w")]
    batch = encode_batch(records, base_offset=10, codec=Codec.LZ4)
    first = clean(batch, {b"a": 10, b"c": 50})
    assert first.content is not None
    header = read_header(first.content)
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == NOW_MS + RETENTION_MS
    assert header.max_timestamp == NOW_MS - 500
    assert list(decode_records(first.content)) == records[:2]
    early = clean(bytes(first.content), {}, now_ms=NOW_MS + RETENTION_MS - 1)
    assert early.content is not None
    assert bytes(early.content) == bytes(first.content)
    late = clean(bytes(first.content), {}, now_ms=NOW_MS + RETENTION_MS)
    assert late.content is not None
    assert list(decode_records(late.content)) == records[1:2]


def test_a_tombstone_that_is_superseded_goes_at_once() -> None:
    assert left_of(encode_batch([Record(0, 1, b"a", None)]), {b"a": 5}) == []


def test_a_tombstone_too_old_for_its_time_to_count_from_the_horizon_is_refused() -> None:
    batch = encode_batch([Record(0, NOW_MS - (2**63 - 1), b"a", None)])
    with pytest.raises(InvalidRecord, match="too old"):
        clean(batch, {})


def test_a_tombstone_beyond_what_was_learned_stays_after_its_horizon() -> None:
    batch = encode_batch([Record(10, 500, b"a", None)], base_offset=10, flags=DELETE_HORIZON)
    assert left_of(batch, {}, latest_offset=5) == [Record(10, 500, b"a", None)]
    assert left_of(batch, {}, latest_offset=10) == []


def test_log_append_time_stays_that_of_the_batch() -> None:
    batch = encode_batch(THREE, base_offset=10, flags=LOG_APPEND_TIME, max_timestamp=NOW_MS)
    left = clean(batch, {b"b": 50})
    assert left.max_timestamp == NOW_MS
    assert {record.timestamp for record in decode_records(left.content or b"")} == {NOW_MS}


def test_control_batches_are_not_touched() -> None:
    batch = encode_batch([Record(10, 1, b"\x00\x00\x00\x01", b"marker")], base_offset=10, flags=CONTROL)
    left = clean(batch, {b"\x00\x00\x00\x01": 50})
    assert left.content is not None
    assert bytes(left.content) == batch


def test_a_broken_batch_is_recognised() -> None:
    batch = bytearray(encode_batch(THREE, base_offset=10))
    batch[-3] ^= 0x7F
    with pytest.raises(KafkaError):
        clean(bytes(batch), {b"a": 50})
