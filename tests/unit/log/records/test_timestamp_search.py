from random import Random

import pytest

from millstream.files import FileHandle, Files
from millstream.log.log import Log
from millstream.log.records.timestamp_search import SEGMENT_UNITS, LargestTimestampSearch, TimestampSearch
from millstream.log.retention import apply_retention
from millstream.wire.batch import HEADER_SIZE, LOG_APPEND_TIME
from millstream.wire.compression import Codec
from millstream.wire.records import Record, encode_batch
from tests import batches
from tests.batches import encode_block
from tests.unit.log.compacted import compact
from tests.unit.log.conftest import NOW_MS, OpenLog
from tests.unit.log.partition import append, finished, offset_for_timestamp, offset_of_max_timestamp, read_all


def times(log: Log, *timestamps: int, codec: Codec = Codec.NONE) -> None:
    base = log.log_end_offset
    records = [Record(number, timestamp, b"%d" % (base + number), b"x" * 50) for number, timestamp in enumerate(timestamps)]
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
    assert offset_for_timestamp(log, asked) == (timestamp, offset, 3)


def test_after_the_last_record_there_is_nothing(log: Log) -> None:
    assert offset_for_timestamp(log, 201) is None


def test_deleted_records_are_not_found(log: Log) -> None:
    log.delete_records_before(2)
    assert offset_for_timestamp(log, 0) == (120, 2, 3)
    log.delete_records_before(8)
    assert offset_for_timestamp(log, 0) is None
    assert offset_of_max_timestamp(log) is None


def test_record_with_the_largest_timestamp(log: Log) -> None:
    assert offset_of_max_timestamp(log) == (200, 6, 3)


def test_first_of_several_records_with_the_largest_timestamp(open_log: OpenLog) -> None:
    log = open_log()
    times(log, 100, 300, 300)
    times(log, 300)
    assert offset_of_max_timestamp(log) == (300, 1, 3)


def test_empty_log_and_records_without_time_answer_nothing(open_log: OpenLog) -> None:
    log = open_log()
    assert offset_for_timestamp(log, 0) is None
    assert offset_of_max_timestamp(log) is None
    append(log, b"x", timestamp=-1)
    assert offset_for_timestamp(log, 0) is None
    assert offset_of_max_timestamp(log) is None


def test_brokers_time_holds_for_every_record(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    times(log, 1, 2, 3)
    assert offset_for_timestamp(log, 5) == (NOW_MS, 0, 3)
    log.delete_records_before(1)
    assert offset_of_max_timestamp(log) == (NOW_MS, 1, 3)
    with_gaps = encode_batch(
        [Record(10 + 2 * number, time, None, b"v") for number, time in enumerate((100, NOW_MS + 1, 110))], flags=LOG_APPEND_TIME
    )
    log.append_as_follower(with_gaps, now_ms=NOW_MS)
    log.delete_records_before(11)
    assert offset_for_timestamp(log, 400) == (NOW_MS + 1, 12, -1)


def test_batch_with_a_wrong_inside_answers_with_its_first_record(open_log: OpenLog) -> None:
    log = open_log()
    damaged = encode_block(b"\x1f\x8b\x08" + bytes(40), 2, timestamp=500, max_timestamp=500, attributes=1)
    log.append_as_leader(damaged, leader_epoch=0, now_ms=NOW_MS)
    assert offset_for_timestamp(log, 100) == (500, 0, 0)


def test_answers_are_the_same_after_a_restart(open_log: OpenLog) -> None:
    log = open_log(index_interval_bytes=200)
    for number in range(60):
        times(log, 1000 + number * 10, 1005 + number * 10)
    asked = list(range(990, 1620, 7))
    before = [offset_for_timestamp(log, timestamp) for timestamp in asked]
    assert before[0] == (1000, 0, 3)
    log.close()
    again = open_log()
    assert [offset_for_timestamp(again, timestamp) for timestamp in asked] == before
    assert offset_of_max_timestamp(again) == (1595, 119, 3)


def first_by_hand(records: list[batches.Record], timestamp: int) -> tuple[int, int] | None:
    return next(((one.timestamp, one.offset) for one in records if one.timestamp >= timestamp), None)


@pytest.mark.parametrize("seed", range(6))
def test_every_search_finds_what_reading_everything_finds_however_small_its_slices(open_log: OpenLog, seed: int) -> None:
    """Times that stand still, jump and fall back; sparse and dense indexes; before and after a restart."""
    random = Random(seed)
    log = open_log(segment_bytes=random.choice([3000, 1 << 20]), index_interval_bytes=random.choice([1, 300, 1000, 1 << 30]))
    now = 1000
    for _ in range(150):
        now += random.choice([0, 0, 0, 0, 0, 0, 1, 5, -3])
        times(log, *(now + random.choice([0, 0, 2]) for _ in range(random.randrange(1, 4))))
    largest = finished(log, LargestTimestampSearch(from_offset=log.log_start_offset), units=1)
    assert largest is not None
    assert largest[:2] == first_by_hand(read_all(log), max(one.timestamp for one in read_all(log)))
    for is_restarted in (False, True):
        if is_restarted:
            log.close()
            log = open_log()
        log.delete_records_before(random.randrange(0, 50))
        records = read_all(log)
        for timestamp in range(990, now + 10):
            expected = first_by_hand(records, timestamp)
            for units in (1, 7, 1 << 30):
                found = finished(
                    log, TimestampSearch(timestamp, from_offset=log.log_start_offset, limit_offset=log.log_end_offset), units=units
                )
                assert (None if found is None else found[:2]) == expected


class CountedReads(Files):
    """Counts the headers that are looked at one by one."""

    headers = 0

    def pread(self, handle: FileHandle, length: int, position: int) -> bytes:
        self.headers += length == HEADER_SIZE
        return super().pread(handle, length, position)


@pytest.mark.parametrize("files", [CountedReads()])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_batches_that_share_one_time_are_not_walked(open_log: OpenLog, files: CountedReads, *, is_restarted: bool) -> None:
    log = open_log()
    for _ in range(2000):
        times(log, 1000)
    if is_restarted:
        log.close()
        log = open_log()
        times(log, 1000)
    end = log.log_end_offset
    times(log, 1001)
    for timestamp, offset in ((1001, end), (1000, 0), (999, 0)):
        files.headers = 0
        found = offset_for_timestamp(log, timestamp)
        assert found is not None
        assert found.offset == offset
        assert files.headers <= 40  # what fits between two entries of the index


def test_index_is_never_so_sparse_that_a_lookup_takes_long(open_log: OpenLog, files: Files) -> None:
    log = open_log(index_interval_bytes=2**31 - 1)
    for _ in range(20):
        append(log, bytes(50_000))
    log.close()
    assert len(next(iter(log.path.glob("*.index"))).read_bytes()) >= 8 * 3


def test_search_does_no_more_at_a_time_than_it_may(open_log: OpenLog) -> None:
    log = open_log(index_interval_bytes=1 << 30)
    for _ in range(300):
        append(log, b"a", b"b", b"c", timestamp=1000, max_timestamp=2000)  # a time that none of its records has
    search = TimestampSearch(1500, from_offset=log.log_start_offset, limit_offset=log.log_end_offset)
    left = [log.advance_search(search, 50)]
    while not search.is_done:
        if search.batch is not None:
            search.look_into(search.batch.load())
        left.append(log.advance_search(search, 50))
    assert search.found is None
    assert len(left) > 300 * 4 / 50
    assert min(left) >= -SEGMENT_UNITS


@pytest.mark.parametrize("change", ["roll", "retention", "truncation", "compaction", "files that are closed"])
def test_log_may_change_between_two_slices(open_log: OpenLog, change: str) -> None:
    policy = "compact" if change == "compaction" else "delete"
    log = open_log(segment_bytes=3000, index_interval_bytes=1, cleanup_policy=policy, retention_ms=-1)
    for number in range(100):
        keys: list[bytes | None] = [b"%d" % number, b"and %d" % number]
        batch = batches.encode_batch([b"x", b"y"], keys=keys, timestamp=1000 + number, max_timestamp=5000)
        log.append_as_leader(batch, leader_epoch=3, now_ms=NOW_MS)
    times(log, 4000)
    search = TimestampSearch(4000, from_offset=log.log_start_offset, limit_offset=log.log_end_offset)
    for _ in range(50):
        log.advance_search(search, 1)
        if search.batch is not None:
            search.look_into(search.batch.load())
    if change == "roll":
        log.roll(now_ms=NOW_MS)
        times(log, 4001)
    elif change == "retention":
        log.delete_records_before(log.segment_base_offsets[-1])
        apply_retention(log, NOW_MS, high_watermark=log.log_end_offset)
        log.segments.release()
    elif change == "truncation":
        log.truncate_to(150)
        times(log, 4000)
    elif change == "files that are closed":
        log.segments.release_sealed()
    else:
        compact(log)
    found = finished(log, search, units=3)
    if change != "truncation":
        assert found == (4000, 200, 3)
    else:
        assert found == (4000, 150, 3)


def test_nothing_behind_the_limit_is_walked(open_log: OpenLog) -> None:
    log = open_log()
    for _ in range(10):
        append(log, b"a", b"b", timestamp=1000, max_timestamp=5000)
    times(log, 3000)
    assert finished(log, TimestampSearch(2000, from_offset=log.log_start_offset, limit_offset=20)) is None
    assert finished(log, TimestampSearch(2000, from_offset=log.log_start_offset, limit_offset=21)) == (3000, 20, 3)
