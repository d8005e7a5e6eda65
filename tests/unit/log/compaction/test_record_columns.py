"""What compaction reads of records is what is in them; whatever does not fit is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import InvalidRecord
from millstream.log.compaction.batch_cleaning import read_columns
from millstream.log.compaction.record_keys import DIGEST_SIZE, MAX_SHORT_KEY
from millstream.wire.batch import HEADER_SIZE, BatchHeader, read_header
from millstream.wire.records import Record, encode_batch
from tests.batches import encode_record

FIELD = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=5), FIELD), max_size=2).map(tuple)


def records() -> st.SearchStrategy[list[Record]]:
    fields = st.tuples(st.integers(1, 300), st.integers(-(2**40), 2**40), FIELD, FIELD, HEADERS)
    return st.lists(fields, max_size=20).map(_numbered)


def _numbered(fields: list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]) -> list[Record]:
    offset, numbered = -1, []
    for step, timestamp, key, value, headers in fields:
        offset += step
        numbered.append(Record(offset, timestamp, key, value, headers))
    return numbered


def header_of(count: int, last_offset_delta: int) -> BatchHeader:
    return read_header(encode_batch([], base_offset=0, last_offset_delta=last_offset_delta))._replace(record_count=count)


@given(records())
def test_keys_offsets_times_and_places_are_those_of_the_records(expected: list[Record]) -> None:
    batch = encode_batch(expected, base_offset=0)
    header, payload = read_header(batch), batch[HEADER_SIZE:]
    walked = read_columns(payload, header)
    assert walked.offsets == [record.offset for record in expected]
    assert walked.timestamps == [record.timestamp for record in expected]
    assert walked.tombstones == [number for number, record in enumerate(expected) if record.value is None]
    for key, record in zip(walked.keys, expected, strict=True):
        if record.key is None or len(record.key) <= MAX_SHORT_KEY:
            assert key == record.key
        else:
            assert key is not None
            assert len(key) == DIGEST_SIZE
    assert not walked.ends or walked.ends[-1] == len(payload)


@given(st.binary(max_size=400), st.integers(0, 30), st.integers(0, 50))
def test_any_bytes_are_walked_or_refused(payload: bytes, count: int, last_offset_delta: int) -> None:
    try:
        walked = read_columns(payload, header_of(count, last_offset_delta))
    except InvalidRecord:
        return
    assert len(walked.keys) == len(walked.ends) == count
    assert walked.ends == sorted(walked.ends)


@given(records().filter(bool), st.data())
def test_damaged_records_are_walked_or_refused(expected: list[Record], data: st.DataObject) -> None:
    payload = bytearray(encode_batch(expected, base_offset=0)[HEADER_SIZE:])
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        walked = read_columns(bytes(payload), header_of(len(expected), expected[-1].offset))
    except InvalidRecord:
        return
    assert walked.ends[-1] == len(payload)


@pytest.mark.parametrize(
    ("payload", "count", "last_offset_delta"),
    [
        (encode_record(0, b"v"), 2, 5),
        (encode_record(0, b"v") + b"\x00", 1, 5),
        (encode_record(0, b"v")[:-1], 1, 5),
        (encode_record(3, b"v"), 1, 2),
        (encode_record(1, b"v") + encode_record(1, b"w"), 2, 5),
        (b"\xff" * 30, 1, 5),
    ],
    ids=["too few", "bytes left over", "cut off", "beyond the end", "twice the same offset", "endless varint"],
)
def test_records_that_do_not_fill_their_batch_are_refused(payload: bytes, count: int, last_offset_delta: int) -> None:
    with pytest.raises(InvalidRecord):
        read_columns(payload, header_of(count, last_offset_delta))
