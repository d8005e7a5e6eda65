import pytest

from millstream.errors import InvalidRecord
from millstream.log.records.record_times import RecordTimes
from millstream.wire.batch import HEADER_SIZE, LOG_APPEND_TIME, read_header
from millstream.wire.records import Record, encode_batch

TIMES = [100, 90, 300, 120, 5_000_000_000, 110]


def records_of(*, flags: int = 0, count: int | None = None, payload: bytes | None = None) -> RecordTimes:
    batch = encode_batch([Record(10 + 2 * number, time, None, b"v") for number, time in enumerate(TIMES)], flags=flags)
    header = read_header(batch)
    return RecordTimes(
        batch[HEADER_SIZE:] if payload is None else payload, header if count is None else header._replace(record_count=count)
    )


def found(records: RecordTimes, timestamp: int, *, from_offset: int = 0, at_most: int = 100) -> tuple[int, int] | None:
    while (one := records.find(timestamp, from_offset=from_offset, at_most=at_most)) is None and not records.is_done:
        assert records.walked == at_most
    return one


@pytest.mark.parametrize("at_most", [1, 2, 4, 100])
def test_first_record_that_is_late_enough_is_found_in_slices_of_any_size(at_most: int) -> None:
    for timestamp, expected in ((0, (100, 10)), (101, (300, 14)), (301, (5_000_000_000, 18)), (5_000_000_001, None)):
        assert found(records_of(), timestamp, at_most=at_most) == expected
    assert found(records_of(), 95, from_offset=11, at_most=at_most) == (300, 14)
    assert found(records_of(), 95, from_offset=19, at_most=at_most) == (110, 20)


def test_brokers_time_holds_for_every_record() -> None:
    assert found(records_of(flags=LOG_APPEND_TIME), 400, from_offset=12) == (5_000_000_000, 12)


@pytest.mark.parametrize("payload", [b"", bytes(60), b"\xff" * 60, b"\x14" + bytes(3), b"\x80" * 60])
def test_broken_records_are_told(payload: bytes) -> None:
    with pytest.raises(InvalidRecord):
        found(records_of(payload=payload, count=6), 1 << 60)


def test_offset_outside_the_batch_is_told() -> None:
    record = b"\x0e\x00\x00\x7e\x01\x02v\x00"
    with pytest.raises(InvalidRecord, match="offset delta"):
        found(records_of(payload=record, count=1), 0)


def test_more_records_than_bytes_are_told() -> None:
    for count in (-1, 1 << 30):
        with pytest.raises(InvalidRecord):
            records_of(count=count)
