import pytest

from penstock.log.log import Log
from penstock.wire.compression import Codec
from penstock.wire.records import Record, encode_batch
from tests.batches import encode_block
from tests.unit.log.conftest import NOW_MS, OpenLog
from tests.unit.log.partition import append


def times(log: Log, *timestamps: int, codec: Codec = Codec.NONE) -> None:
    records = [Record(number, timestamp, None, b"x" * 50) for number, timestamp in enumerate(timestamps)]
    log.append_as_leader(encode_batch(records, codec=codec), leader_epoch=3, now_ms=NOW_MS)


@pytest.fixture
def log(open_log: OpenLog) -> Log:
    """Offsets 0-2 at 100, 110, 120; 3-4 at 90, 130; 5 at 130; 6-7 at 200, 150."""
    log = open_log(index_interval_bytes=1)
    times(log, 100, 110, 120)
    times(log, 90, 130, codec=Codec.GZIP)
    log.roll(now_ms=NOW_MS)
    times(log, 130)
    times(log, 200, 150)
    return log


@pytest.mark.parametrize(
    ("asked", "timestamp", "offset"),
    [(0, 100, 0), (100, 100, 0), (101, 110, 1), (120, 120, 2), (121, 130, 4), (131, 200, 6), (200, 200, 6)],
)
def test_first_record_at_or_after_the_time_is_found(log: Log, asked: int, timestamp: int, offset: int) -> None:
    assert log.offset_for_timestamp(asked) == (timestamp, offset, 3)


def test_after_the_last_record_there_is_nothing(log: Log) -> None:
    assert log.offset_for_timestamp(201) is None


def test_deleted_records_are_not_found(log: Log) -> None:
    log.delete_records_before(2)
    assert log.offset_for_timestamp(0) == (120, 2, 3)
    log.delete_records_before(8)
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_max_timestamp() is None


def test_record_with_the_largest_timestamp(log: Log) -> None:
    assert log.offset_of_max_timestamp() == (200, 6, 3)


def test_first_of_several_records_with_the_largest_timestamp(open_log: OpenLog) -> None:
    log = open_log()
    times(log, 100, 300, 300)
    times(log, 300)
    assert log.offset_of_max_timestamp() == (300, 1, 3)


def test_empty_log_and_records_without_time_answer_nothing(open_log: OpenLog) -> None:
    log = open_log()
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_max_timestamp() is None
    append(log, b"x", timestamp=-1)
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_max_timestamp() is None


def test_brokers_time_holds_for_every_record(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    times(log, 1, 2, 3)
    assert log.offset_for_timestamp(5) == (NOW_MS, 0, 3)
    log.delete_records_before(1)
    assert log.offset_of_max_timestamp() == (NOW_MS, 1, 3)


def test_batch_with_a_wrong_inside_answers_with_its_first_record(open_log: OpenLog) -> None:
    log = open_log()
    damaged = encode_block(b"\x1f\x8b\x08" + bytes(40), 2, timestamp=500, max_timestamp=500, attributes=1)
    log.append_as_leader(damaged, leader_epoch=0, now_ms=NOW_MS)
    assert log.offset_for_timestamp(100) == (500, 0, 0)


def test_answers_are_the_same_after_a_restart(open_log: OpenLog) -> None:
    log = open_log(index_interval_bytes=200)
    for number in range(60):
        times(log, 1000 + number * 10, 1005 + number * 10)
    asked = list(range(990, 1620, 7))
    before = [log.offset_for_timestamp(timestamp) for timestamp in asked]
    assert before[0] == (1000, 0, 3)
    log.close()
    again = open_log()
    assert [again.offset_for_timestamp(timestamp) for timestamp in asked] == before
    assert again.offset_of_max_timestamp() == (1595, 119, 3)
