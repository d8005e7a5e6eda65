"""Keys that are read quickly are those that the strict walker reads, and what it refuses is never read."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.errors import InvalidRecord
from millstream.log.compaction.batch_cleaning import read_columns
from millstream.log.compaction.record_keys import MAX_SHORT_KEY, RecordKeys, read_keys
from millstream.wire.batch import HEADER_SIZE, BatchHeader, read_header
from millstream.wire.primitives import zigzag_varint
from millstream.wire.records import Record, encode_batch
from tests.batches import encode_record

KEY = st.binary(max_size=80)
VALUE = st.none() | st.binary(max_size=200) | st.sampled_from([b"", bytes(63), bytes(64), bytes(8191), bytes(8192)])
HEADERS = st.lists(st.tuples(st.text(max_size=5), VALUE), max_size=1).map(tuple)
STEP = st.integers(1, 3) | st.sampled_from([60, 8000])
TIME = st.integers(0, 70) | st.sampled_from([-1, -64, -65, 63, 64, 8191, 8192, 2**40])
FIELDS = st.tuples(STEP, TIME, st.none() | KEY, VALUE, HEADERS)


def numbered(fields: list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]) -> list[Record]:
    offset, records = -1, []
    for step, timestamp, key, value, headers in fields:
        offset += step
        records.append(Record(offset, timestamp, key, value, headers))
    return records


def header_of(count: int, last_offset_delta: int) -> BatchHeader:
    return read_header(encode_batch([], base_offset=0, last_offset_delta=last_offset_delta))._replace(record_count=count)


def assert_as_the_strict_walker_says(payload: bytes, header: BatchHeader) -> None:
    quick = read_keys(payload, header)
    try:
        strict = read_columns(payload, header)
    except InvalidRecord:
        assert quick is None
        return
    if quick is not None:
        assert quick == RecordKeys([key for key in strict.keys if key is not None], bool(strict.tombstones))
        assert len(quick.keys) == len(strict.keys)


@given(st.lists(FIELDS, max_size=90).map(numbered))
def test_keys_are_those_of_the_strict_walker(records: list[Record]) -> None:
    batch = encode_batch(records, base_offset=0)
    assert_as_the_strict_walker_says(batch[HEADER_SIZE:], read_header(batch))


@given(st.lists(FIELDS, min_size=1, max_size=90).map(numbered), st.data())
def test_damaged_records_are_refused_where_the_strict_walker_refuses_them(records: list[Record], data: st.DataObject) -> None:
    payload = bytearray(encode_batch(records, base_offset=0)[HEADER_SIZE:])
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, min(len(payload), 40) - 1) | st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    assert_as_the_strict_walker_says(bytes(payload), header_of(len(records), records[-1].offset))


@given(st.binary(max_size=60), st.integers(-2, 8), st.integers(-2, 10))
@example(b"", 0, -1)
@example(b"", -1, -2)
def test_any_bytes_are_refused_where_the_strict_walker_refuses_them(payload: bytes, count: int, last_offset_delta: int) -> None:
    assert_as_the_strict_walker_says(payload, header_of(count, last_offset_delta))


@pytest.mark.parametrize("value_size", [0, 20, 63, 64, 200, 8000])
@pytest.mark.parametrize("key_size", [0, 5, MAX_SHORT_KEY, MAX_SHORT_KEY + 1, 63])
@pytest.mark.parametrize(("step", "pace_ms"), [(1, 0), (1, 7), (1, -7), (3, 1)])
def test_records_that_look_alike_are_read_quickly(value_size: int, key_size: int, step: int, pace_ms: int) -> None:
    records = [
        Record(number * step, number * pace_ms, b"%03d" % number + bytes(key_size - 3) if key_size else b"", bytes(value_size))
        for number in range(150)
    ]
    batch = encode_batch(records, base_offset=0)
    assert read_keys(batch[HEADER_SIZE:], read_header(batch)) is not None
    assert_as_the_strict_walker_says(batch[HEADER_SIZE:], read_header(batch))


def test_records_of_mixed_sizes_with_tombstones_among_them_are_read_quickly() -> None:
    values = [None if number % 10 == 9 else bytes(number * 7 % 150) for number in range(200)]
    batch = encode_batch([Record(number, 0, b"k%d" % number, value) for number, value in enumerate(values)], base_offset=0)
    quick = read_keys(batch[HEADER_SIZE:], read_header(batch))
    assert quick == RecordKeys([b"k%d" % number for number in range(200)], has_tombstones=True)


@pytest.mark.parametrize("wrong", [-2, 5, 63, 64, 8191, 2**31 - 1], ids=str)
def test_a_value_that_does_not_fit_into_its_record_is_refused(wrong: int) -> None:
    body = b"\x00\x00\x00" + zigzag_varint(1) + b"k" + zigzag_varint(wrong) + b"abc" + b"\x00"
    payload = zigzag_varint(len(body)) + body
    assert read_keys(payload + encode_record(1, b"v"), header_of(2, 1)) is None
    assert read_keys(payload, header_of(1, 0)) is None
