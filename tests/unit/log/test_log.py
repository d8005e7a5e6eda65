import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from millstream.buffer import Buffer
from millstream.errors import (
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    StorageError,
)
from millstream.files import FileHandle, Files
from millstream.log.config import LogConfig
from millstream.log.directories.directory import LogDirectory
from millstream.log.loading import LoadOrder
from millstream.log.log import AppendResult, Log
from millstream.log.retention import apply_retention
from millstream.log.segment import Segment
from millstream.topic_partition import TopicPartition
from tests.batches import decode_records, encode_batch, split_batches
from tests.unit.log.conftest import NOW_MS, OpenLog
from tests.unit.log.partition import append, append_many, flush, read_bytes, values


def test_offsets_are_given_one_after_the_other(log: Log) -> None:
    first = append(log, b"a", b"b", b"c")
    second = append(log, b"d")
    assert (first.base_offset, first.last_offset, second.base_offset, log.log_end_offset) == (0, 2, 3, 4)
    assert values(log) == [b"a", b"b", b"c", b"d"]


def test_batch_is_stored_as_it_came_but_for_offset_and_epoch(log: Log) -> None:
    append(log, b"x")
    batch = encode_batch([b"value"], timestamp=NOW_MS)
    log.append_as_leader(memoryview(bytearray(batch)), leader_epoch=7, now_ms=NOW_MS)
    stored = read_bytes(log, 1)
    assert stored[:16] == (1).to_bytes(8, "big") + batch[8:12] + (7).to_bytes(4, "big")
    assert stored[16:] == batch[16:]


def test_brokers_time_is_written_into_the_batch(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    result = append(log, b"a", timestamp=5)
    header, _ = next(split_batches(read_bytes(log, 0)))
    assert (result.log_append_time_ms, header.max_timestamp, header.attributes) == (NOW_MS, NOW_MS, 8)
    assert values(log) == [b"a"]


def test_refused_batch_changes_nothing(open_log: OpenLog) -> None:
    log = open_log(max_message_bytes=200)
    with pytest.raises(MessageTooLarge):
        append(log, b"x" * 300)
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_compacted_topic_refuses_records_without_a_key(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy="compact")
    with pytest.raises(InvalidRecord):
        append(log, b"x")


def test_recompressed_batch_must_still_fit(open_log: OpenLog) -> None:
    log = open_log(compression_type="gzip", max_message_bytes=80)
    with pytest.raises(MessageTooLarge, match="gzip"):
        append(log, b"x")


def test_batch_sent_twice_is_written_once_and_answered_with_its_first_offset(log: Log) -> None:
    append(log, b"other")
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    first = append(log, b"a", b"b", **fields)
    again = append(log, b"a", b"b", **fields)
    assert (again.base_offset, again.last_offset, again.is_duplicate, first.is_duplicate) == (1, 2, True, False)
    assert log.log_end_offset == 3
    with pytest.raises(OutOfOrderSequenceNumber):
        append(log, b"c", producer_id=5, producer_epoch=0, base_sequence=3)


def test_log_rolls_by_size(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1000)
    append_many(log, 20)
    sizes = [path.stat().st_size for path in sorted(log.path.glob("*.log"))]
    assert len(sizes) > 2
    assert all(size <= 1000 for size in sizes)
    assert values(log) == [str(number).encode().ljust(100, b".") for number in range(20)]


def test_log_rolls_by_the_time_in_the_batches(open_log: OpenLog) -> None:
    log = open_log(segment_ms=1000)
    for timestamp in (5000, 5500, 6000, 6001):
        append(log, b"x", timestamp=timestamp)
    assert log.segment_base_offsets == [0, 3]


def test_log_rolls_by_the_clock_when_batches_have_no_time(open_log: OpenLog) -> None:
    log = open_log(segment_ms=1000)
    append(log, b"x", timestamp=-1)
    append(log, b"x", timestamp=-1, now_ms=NOW_MS + 1000)
    assert log.segment_base_offsets == [0]
    append(log, b"x", timestamp=-1, now_ms=NOW_MS + 1001)
    assert log.segment_base_offsets == [0, 2]


def test_log_rolls_when_the_index_is_full(open_log: OpenLog) -> None:
    log = open_log(index_interval_bytes=1, segment_index_bytes=48)
    append_many(log, 30)
    assert len(log.segment_base_offsets) > 3
    assert all(path.stat().st_size <= 48 for path in log.path.glob("*index"))


def test_log_rolls_when_offsets_are_too_far_from_the_base(log: Log) -> None:
    append(log, b"x")
    log.append_as_follower(encode_batch([b"y"], base_offset=2**31, timestamp=1), now_ms=NOW_MS)
    assert log.segment_base_offsets == [0, 1]
    log.append_as_follower(encode_batch([b"y"], base_offset=2**31 + 1, timestamp=1), now_ms=NOW_MS)
    assert log.segment_base_offsets == [0, 1, 2**31 + 1]


@pytest.mark.parametrize("is_empty", [True, False])
def test_follower_begins_a_segment_where_the_leader_begins_however_far_that_is(open_log: OpenLog, *, is_empty: bool) -> None:
    log, far = open_log(), 3_000_000_000
    if not is_empty:
        append(log, b"x")
    assert log.append_as_follower(encode_batch([b"y"], base_offset=far, timestamp=1), now_ms=NOW_MS) == far + 1
    log.append_as_follower(encode_batch([b"z"], base_offset=far + 1, timestamp=1), now_ms=NOW_MS)
    expected = [far] if is_empty else [0, far]
    assert (log.segment_base_offsets, log.log_start_offset) == (expected, expected[0])
    assert [record.offset for record in decode_records(read_bytes(log, far))] == [far, far + 1]
    log.close()
    assert sorted(path.name for path in log.path.glob("*.log")) == [f"{base:020d}.log" for base in expected]
    again = open_log()
    assert (again.segment_base_offsets, again.log_start_offset, again.log_end_offset) == (expected, expected[0], far + 2)
    assert append(again, b"goes on").base_offset == far + 2


def test_reading_outside_is_an_error_and_at_the_end_is_nothing(log: Log) -> None:
    append_many(log, 3)
    log.delete_records_before(1)
    assert log.read(3, max_bytes=100, limit_offset=3) is None
    for offset in (0, 4, -1):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, max_bytes=100, limit_offset=3)


def test_follower_writes_what_it_gets(log: Log, tmp_path: Path) -> None:
    data = b"".join(encode_batch([b"v"], base_offset=offset, leader_epoch=offset // 2, timestamp=1) for offset in range(5))
    assert log.append_as_follower(data + data[:20], now_ms=NOW_MS) == 5
    assert read_bytes(log, 0) == data
    assert [log.end_offset_for_epoch(epoch) for epoch in (0, 1, 2, 3)] == [(0, 2), (1, 4), (2, 5), (-1, -1)]


def test_follower_writes_the_batches_of_an_answer_by_one_call_per_segment(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1024)
    batches = [encode_batch([b"v" * 100], base_offset=offset, timestamp=NOW_MS) for offset in range(12)]
    with patch.object(Segment, "write", autospec=True, side_effect=Segment.write) as write:
        log.append_as_follower(b"".join(batches), now_ms=NOW_MS)
    assert len(log.segment_base_offsets) == write.call_count == 2
    assert read_bytes(log, 0) + read_bytes(log, log.segment_base_offsets[1]) == b"".join(batches)


@pytest.mark.parametrize("damage", ["crc", "magic", "overlap", "twice"])
def test_follower_writes_nothing_of_an_answer_that_is_not_right(log: Log, damage: str) -> None:
    log.append_as_follower(encode_batch([b"v"], base_offset=0, timestamp=1), now_ms=NOW_MS)
    good, bad = encode_batch([b"v"], base_offset=1, timestamp=1), bytearray(encode_batch([b"w"], base_offset=2, timestamp=1))
    if damage == "crc":
        bad[-1] ^= 1
    elif damage == "magic":
        bad[16] = 1
    answer = good + {"overlap": encode_batch([b"w"], base_offset=0, timestamp=1), "twice": good}.get(damage, bytes(bad))
    with pytest.raises(CorruptMessage, match="the leader sent"):
        log.append_as_follower(answer, now_ms=NOW_MS)
    assert log.log_end_offset == 1
    assert log.append_as_follower(good, now_ms=NOW_MS) == 2


def test_epoch_starts_with_its_first_append_or_with_becoming_leader(log: Log) -> None:
    append(log, b"a", epoch=1)
    log.assign_leader_epoch(4)
    log.assign_leader_epoch(3)
    append(log, b"b", epoch=4)
    assert (log.epochs.latest, log.epoch_of(0), log.epoch_of(1)) == (4, 1, 4)
    assert log.end_offset_for_epoch(2) == (1, 1)


def test_flush_moves_the_durable_end_when_it_is_complete(log: Log) -> None:
    append_many(log, 3)
    assert log.durable_end == 0
    running = log.begin_flush()
    assert running is not None
    assert log.begin_flush() is None
    append_many(log, 2)
    running.run()
    assert log.durable_end == 0
    log.complete_flush(running, now_ms=NOW_MS)
    assert log.durable_end == 3
    flush(log)
    assert log.durable_end == 5
    assert log.begin_flush() is None


def test_flush_is_due_by_count_by_time_and_after_a_roll(open_log: OpenLog) -> None:
    log = open_log(flush_messages=3, flush_ms=1000)
    append_many(log, 2)
    is_required = [log.is_flush_required]
    assert not log.is_flush_due(NOW_MS + 999)
    assert log.is_flush_due(NOW_MS + 1000)
    append_many(log, 1)
    is_required.append(log.is_flush_required)
    assert is_required == [False, True]
    flush(log)
    assert not log.is_flush_due(NOW_MS + 5000)
    append_many(log, 1)
    log.roll(now_ms=NOW_MS)
    assert log.is_flush_due(NOW_MS)


def test_truncation_during_a_flush_does_not_leave_the_durable_end_behind_the_log(log: Log) -> None:
    append_many(log, 5)
    running = log.begin_flush()
    assert running is not None
    log.truncate_to(2)
    append_many(log, 5)
    running.run()
    log.complete_flush(running, now_ms=NOW_MS)
    assert log.durable_end == 2


def test_deleting_records_moves_the_start(log: Log) -> None:
    append_many(log, 5)
    assert log.delete_records_before(3) == 3
    assert log.delete_records_before(1) == 3
    with pytest.raises(OffsetOutOfRange):
        log.delete_records_before(6)
    assert len(values(log)) == 2


def test_retention_drops_segments_and_hands_their_files_over(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1000, retention_bytes=2000)
    append_many(log, 40)
    reader = log.read(0, max_bytes=1 << 20, limit_offset=40)
    assert reader is not None
    flush(log)
    dropped = apply_retention(log, NOW_MS, high_watermark=40)
    assert log.log_start_offset == log.segment_base_offsets[0] > 0
    assert log.size_bytes <= 3000
    assert all(path.suffix == ".deleted" and path.exists() for path in dropped)
    assert len(Files().pread(reader.handle, reader.length, reader.position)) == reader.length
    assert apply_retention(log, NOW_MS, high_watermark=40) == []


def test_expired_active_segment_is_rolled_and_dropped(open_log: OpenLog) -> None:
    log = open_log(retention_ms=1000)
    append_many(log, 3)
    assert apply_retention(log, NOW_MS + 1001, high_watermark=0) == []
    assert apply_retention(log, NOW_MS + 1001, high_watermark=3) == []
    assert (log.log_start_offset, log.segment_base_offsets, log.is_flush_due(NOW_MS)) == (0, [0, 3], True)
    flush(log)
    assert apply_retention(log, NOW_MS + 1001, high_watermark=3)
    assert (log.log_start_offset, log.log_end_offset, log.segment_base_offsets) == (3, 3, [3])
    assert (log.is_flush_due(NOW_MS), log.begin_flush()) == (False, None)
    assert append(log, b"x").base_offset == 3


def test_expired_log_whose_records_are_on_disk_waits_for_its_new_segment_all_the_same(open_log: OpenLog) -> None:
    log = open_log(retention_ms=1000)
    append_many(log, 3)
    flush(log)
    assert apply_retention(log, NOW_MS + 1001, high_watermark=3) == []
    running = log.begin_flush()
    assert running is not None
    assert apply_retention(log, NOW_MS + 1001, high_watermark=3) == []
    running.run()
    log.complete_flush(running, now_ms=NOW_MS)
    assert apply_retention(log, NOW_MS + 1001, high_watermark=3)


def test_truncation_cuts_at_a_batch_boundary(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1000)
    append_many(log, 20)
    append(log, b"a", b"b", b"c", epoch=2)
    log.truncate_to(21)
    assert (log.log_end_offset, log.epochs.latest) == (20, 0)
    log.truncate_to(3)
    assert len(values(log)) == log.log_end_offset == 3
    assert log.segment_base_offsets == [0]
    append_many(log, 20)
    assert len(values(log)) == 23


def test_truncation_forgets_the_sequences_behind_it(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=400)
    for sequence in range(10):
        append(log, b"x" * 50, producer_id=1, producer_epoch=0, base_sequence=sequence)
    log.truncate_to(4)
    assert append(log, b"x", producer_id=1, producer_epoch=0, base_sequence=4).base_offset == 4


def test_truncating_before_the_first_segment_starts_anew(open_log: OpenLog) -> None:
    log = open_log(log_start_offset=10)
    append_many(log, 5)
    assert log.log_start_offset == 10
    log.truncate_to(4)
    assert (log.log_start_offset, log.log_end_offset, log.segment_base_offsets) == (4, 4, [4])
    log.truncate_fully_and_start_at(100)
    assert append(log, b"x").base_offset == 100
    assert sorted(path.name for path in log.path.glob("*.log")) == [f"{100:020d}.log"]


def test_options_change_while_the_log_is_open(log: Log) -> None:
    append_many(log, 3, size=300)
    log.update_config(type(log.config)(segment_bytes=500))
    append_many(log, 2, size=300)
    assert log.segment_base_offsets == [0, 3, 4]


def test_closed_log_refuses_everything(log: Log) -> None:
    append(log, b"x")
    log.close()
    log.close()
    for action in (
        lambda: append(log, b"y"),
        lambda: log.read(0, max_bytes=1, limit_offset=1),
        lambda: log.roll(now_ms=0),
        lambda: log.truncate_to(0),
        lambda: log.delete_records_before(1),
    ):
        with pytest.raises(StorageError, match="closed"):
            action()


class FullDisk(Files):
    """A disk that takes so many bytes more, and then none."""

    def __init__(self) -> None:
        self.room = 1 << 40

    def pwritev(self, handle: FileHandle, buffers: Sequence[Buffer], position: int) -> int:
        data = b"".join(buffers)[: self.room]
        if not data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(data)
        return super().pwritev(handle, [data], position)


def opened_after_a_crash(root: Path) -> Log:
    directory = LogDirectory(Files(), root, on_offline=lambda _directory, _error: None)
    return Log(directory, TopicPartition("orders", 0), root / "orders-0", LoadOrder(LogConfig(), NOW_MS, is_clean=False))


@pytest.mark.parametrize("room", [0, 1, 15, 16, 17, 61, 100, 168])
def test_full_disk_cuts_back_to_the_last_batch_and_takes_the_directory_offline(tmp_path: Path, room: int) -> None:
    files = FullDisk()
    failures: list[str] = []
    directory = LogDirectory(files, tmp_path, on_offline=lambda failed, error: failures.append(f"{failed.path} {error.strerror}"))
    (tmp_path / "orders-0").mkdir()
    log = Log(directory, TopicPartition("orders", 0), tmp_path / "orders-0", LoadOrder(LogConfig(), NOW_MS))
    append_many(log, 2)
    size = log.size_bytes
    files.room = room
    with pytest.raises(StorageError, match="No space left on device"):
        append_many(log, 1)
    assert log.path.joinpath(f"{0:020d}.log").stat().st_size == size
    assert failures == [f"{tmp_path} No space left on device"]
    files.room = 1 << 40
    for _ in range(2):
        with pytest.raises(StorageError):
            append_many(log, 1)
    log.close()
    again = opened_after_a_crash(tmp_path)
    assert len(values(again)) == again.log_end_offset == 2


@pytest.mark.parametrize("room", [0, 1, 100, 250, 500])
def test_run_that_does_not_fit_on_the_disk_is_acknowledged_in_no_part(tmp_path: Path, room: int) -> None:
    files = FullDisk()
    directory = LogDirectory(files, tmp_path, on_offline=lambda _directory, _error: None)
    (tmp_path / "orders-0").mkdir()
    log = Log(directory, TopicPartition("orders", 0), tmp_path / "orders-0", LoadOrder(LogConfig(), NOW_MS))
    append_many(log, 2)
    files.room = room
    run = [encode_batch([b"x" * 100], timestamp=NOW_MS) for _ in range(5)]
    results = log.append_run_as_leader(run, leader_epoch=0, now_ms=NOW_MS)
    assert [type(result) for result in results] == [StorageError] * 5
    assert log.log_end_offset == 2
    log.close()
    again = opened_after_a_crash(tmp_path)
    assert len(values(again)) == again.log_end_offset == 2


def test_run_is_written_by_one_call_and_rolls_in_the_middle(tmp_path: Path) -> None:
    class CountedWrites(Files):
        calls = 0

        def pwritev(self, handle: FileHandle, buffers: Sequence[Buffer], position: int) -> int:
            CountedWrites.calls += 1
            return super().pwritev(handle, buffers, position)

    directory = LogDirectory(CountedWrites(), tmp_path, on_offline=lambda _directory, _error: None)
    (tmp_path / "orders-0").mkdir()
    log = Log(directory, TopicPartition("orders", 0), tmp_path / "orders-0", LoadOrder(LogConfig(), NOW_MS))
    run = [encode_batch([b"x" * 100], timestamp=NOW_MS) for _ in range(20)]
    log.append_run_as_leader(run, leader_epoch=0, now_ms=NOW_MS)
    assert (CountedWrites.calls, log.log_end_offset) == (1, 20)
    log.update_config(LogConfig(segment_bytes=sum(map(len, run[:5])) + log.size_bytes))
    log.append_run_as_leader(run, leader_epoch=0, now_ms=NOW_MS)
    assert log.segment_base_offsets == [0, 25]
    assert values(log) == [b"x" * 100] * 40


def test_sequences_are_checked_within_a_run(log: Log) -> None:
    sequences = (0, 1, 1, 3, 2)
    run = [encode_batch([b"a"], base_sequence=number, producer_id=5, producer_epoch=0, timestamp=NOW_MS) for number in sequences]
    results = log.append_run_as_leader(run, leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(results[3], OutOfOrderSequenceNumber)
    assert [result.base_offset for result in results if isinstance(result, AppendResult)] == [0, 1, 1, 2]


def test_failed_flush_takes_the_directory_offline_and_the_durable_end_stays(log: Log) -> None:
    append_many(log, 3)
    running = log.begin_flush()
    assert running is not None
    log.fail_flush(running, OSError(errno.EIO, "Input/output error"))
    assert log.directory.offline is not None
    assert log.durable_end == 0
    assert log.begin_flush() is None
    with pytest.raises(StorageError, match="fsync"):
        append(log, b"x")


def test_flush_of_a_log_that_was_deleted_meanwhile_does_no_harm(log: Log) -> None:
    append_many(log, 3)
    running = log.begin_flush()
    assert running is not None
    log.abandon()
    log.fail_flush(running, FileNotFoundError(errno.ENOENT, "gone"))
    assert log.directory.offline is None


def test_too_many_open_files_is_an_error_but_no_disk_error(log: Log) -> None:
    assert isinstance(log.directory.fail("opening", OSError(errno.EMFILE, "Too many open files")), StorageError)
    assert log.directory.offline is None


def open_below(directory: Path) -> int:
    """How many descriptors of this process are files in the directory."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{number}").startswith(str(directory))
    return found


def test_release_closes_files_until_they_are_needed(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1000)
    append_many(log, 20)
    values(log)
    descriptors = open_below(log.path)
    log.segments.release_sealed()
    assert open_below(log.path) < descriptors
    assert len(values(log)) == 20


def test_retention_leaves_no_file_open(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1000)
    append_many(log, 40)
    log.close()
    again = open_log(segment_bytes=1000)
    descriptors = open_below(again.path)
    apply_retention(again, NOW_MS, high_watermark=40)
    assert open_below(again.path) == descriptors


def test_memory_does_not_hold_messages(log: Log) -> None:
    append_many(log, 1000, size=10)
    active = log._active
    assert len(active._recent_positions) <= 64
