"""A log moves to another directory while it is used."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.errors import StorageError
from millstream.files import FileHandle, Files
from millstream.log.compaction.cleaning import Cleaning, cleaning_extent
from millstream.log.directories import checkpoints
from millstream.log.moving.future_log import CopyFailed, OutOfDescriptors, SourceChanged
from millstream.log.retention import apply_retention
from millstream.log.transactions.committed_reads import aborted_in
from millstream.log.truncation import Truncation
from tests.batches import encode_batch
from tests.unit.log.conftest import NOW_MS
from tests.unit.log.moving_log import CONFIG, TwoDisks, copy, finish, swap
from tests.unit.log.partition import append, append_many, flush, offset_for_timestamp, offset_of_max_timestamp, read_all, values
from tests.unit.log.transacted import Writer


@pytest.fixture
def disks(tmp_path: Path) -> TwoDisks:
    return TwoDisks(tmp_path)


def names_in(path: Path) -> list[str]:
    return sorted(found.name for found in path.iterdir() if found.is_dir())


def content(path: Path) -> dict[str, bytes]:
    return {found.name: found.read_bytes() for found in path.iterdir()}


def test_a_log_is_the_same_after_its_move(disks: TwoDisks) -> None:
    log = disks.log
    append_many(log, 30)
    before = read_all(log)
    move = disks.begin()
    copy(move)
    assert swap(move)
    assert (log.directory, log.path) == (disks.b, disks.b.path / "orders-0")
    assert read_all(log) == before
    append(log, b"later", epoch=3)
    deleted = finish(move)
    assert names_in(disks.a.path) == [deleted.name]
    assert names_in(disks.b.path) == ["orders-0"]
    assert read_all(log)[:-1] == before
    assert values(log)[-1] == b"later"
    assert log.epoch_of(30) == 3
    assert offset_of_max_timestamp(log) is not None
    assert (disks.a.log_count, disks.b.log_count) == (0, 1)


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_what_is_appended_during_the_move_goes_with_it(disks: TwoDisks, how: str) -> None:
    log = disks.log
    append_many(log, 12)
    move = disks.begin()
    copy(move, max_bytes=100)
    append_many(log, 12)
    copy(move, max_bytes=1)
    append_many(log, 3)
    outline = move.begin_swap(now_ms=NOW_MS)
    append(log, b"in the last moment", timestamp=NOW_MS + 5)
    append_many(log, 2)
    move.future.complete(outline)
    move.prepare(outline, offsets={}, cleaned_offset=None)
    append_many(log, 11)
    assert len(log.segments) > len(outline.segments) + 1
    assert move.swap(outline, max_bytes=1 << 20)
    move.end_swap()
    assert [record.offset for record in read_all(log)] == list(range(41))
    found = offset_for_timestamp(log, NOW_MS + 5)
    assert found is not None
    assert found.offset == 27
    finish(move)
    if how == "stopped":
        disks.manager.close()
    else:
        disks.release()
    again = TwoDisks(disks.a.path.parent)
    assert offset_for_timestamp(again.log, NOW_MS + 5) == found
    assert [record.offset for record in read_all(again.log)] == list(range(41))
    assert again.log.directory is again.b


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_transactions_go_with_it(disks: TwoDisks, how: str) -> None:
    log = disks.log
    one, two, three = Writer(log, 1), Writer(log, 2), Writer(log, 3)
    one.send(b"a")
    one.abort()
    append_many(log, 10)
    two.send(b"b")
    three.send(b"c")
    move = disks.begin()
    copy(move)
    outline = move.begin_swap(now_ms=NOW_MS)
    move.future.complete(outline)
    move.prepare(outline, offsets={}, cleaned_offset=None)
    two.abort()
    aborted, stable = aborted_in(log, 0, 100), log.last_stable_offset(log.log_end_offset)
    assert [producer_id for producer_id, *_ in aborted] == [1, 2]
    assert move.swap(outline, max_bytes=1 << 20)
    move.end_swap()
    finish(move)
    assert (aborted_in(log, 0, 100), log.last_stable_offset(log.log_end_offset)) == (aborted, stable)
    if how == "stopped":
        disks.manager.close()
    else:
        disks.release()
    again = TwoDisks(disks.a.path.parent).log
    assert (aborted_in(again, 0, 100), again.last_stable_offset(again.log_end_offset)) == (aborted, stable)
    three.log = again
    three.abort()
    assert [producer_id for producer_id, *_ in aborted_in(again, 0, 100)] == [1, 2, 3]


def test_a_follower_goes_on_as_before(disks: TwoDisks) -> None:
    log = disks.log
    sent = b"".join(encode_batch([b"%02d" % number], base_offset=number, leader_epoch=number // 4) for number in range(12))
    half = sent[: len(sent) // 2]
    log.append_as_follower(half, now_ms=NOW_MS)
    move = disks.begin()
    copy(move)
    assert swap(move)
    log.append_as_follower(sent[len(half) :], now_ms=NOW_MS)
    assert log.epochs.entries == [(0, 0), (1, 4), (2, 8)]
    assert values(log) == [b"%02d" % number for number in range(12)]
    flush(log)
    finish(move)
    disks.release()
    again = TwoDisks(disks.a.path.parent).log
    assert again.epochs.entries == [(0, 0), (1, 4), (2, 8)]


def test_a_log_that_goes_on_too_fast_is_swapped_another_time(disks: TwoDisks) -> None:
    log = disks.log
    append_many(log, 5)
    move = disks.begin()
    outline = move.begin_swap(now_ms=NOW_MS)
    move.future.complete(outline)
    move.prepare(outline, offsets={}, cleaned_offset=None)
    append_many(log, 2)
    assert not move.swap(outline, max_bytes=100)
    move.end_swap()
    assert log.directory is disks.a
    flush(log)
    assert swap(move)
    assert len(read_all(log)) == 7


def test_no_flush_begins_while_the_copy_is_completed(disks: TwoDisks) -> None:
    """Or else something could be promised that only the old files have when the power goes."""
    log = disks.log
    append_many(log, 5)
    move = disks.begin()
    outline = move.begin_swap(now_ms=NOW_MS)
    append_many(log, 1)
    assert log.begin_flush() is None
    move.future.complete(outline)
    move.prepare(outline, offsets={}, cleaned_offset=None)
    assert move.swap(outline, max_bytes=1 << 20)
    move.end_swap()
    assert log.durable_end == 0
    flush(log)
    assert log.durable_end == 6


def test_truncation_while_it_is_copied_is_noticed(disks: TwoDisks) -> None:
    log = disks.log
    append_many(log, 20)
    move = disks.begin()
    copy(move)
    truncation = Truncation(log, 7)
    truncation.run()
    truncation.end()
    for number in range(13):
        append(log, f"other {number}".encode().ljust(100, b"!"))
    before = read_all(log)
    copy(move)
    assert swap(move)
    assert read_all(log) == before


def test_a_segment_that_was_cut_and_is_followed_by_another_one_is_cut_in_the_copy(disks: TwoDisks, tmp_path: Path) -> None:
    log = disks.log
    append_many(log, 3)
    log.roll(now_ms=NOW_MS)
    append_many(log, 3)
    move = disks.begin()
    copy(move)
    log.truncate_to(1)
    log.roll(now_ms=NOW_MS)
    for _ in range(4):
        append(log, b"instead")
    copy(move)
    assert swap(move)
    finish(move)
    before = [(record.offset, record.value) for record in read_all(log)]
    assert [value for _, value in before[1:]] == [b"instead"] * 4
    disks.manager.close()
    assert [(record.offset, record.value) for record in read_all(TwoDisks(tmp_path).log)] == before


def test_truncation_during_the_swap_makes_it_another_try(disks: TwoDisks) -> None:
    log = disks.log
    append_many(log, 20)
    move = disks.begin()
    outline = move.begin_swap(now_ms=NOW_MS)
    move.future.complete(outline)
    move.prepare(outline, offsets={}, cleaned_offset=None)
    log.truncate_to(15)
    append_many(log, 5, size=30)
    assert not move.swap(outline, max_bytes=1 << 20)
    move.end_swap()
    before = read_all(log)
    assert swap(move)
    assert read_all(log) == before


def test_retention_and_deleted_records_while_it_is_copied(disks: TwoDisks) -> None:
    log = disks.log
    append_many(log, 30)
    flush(log)
    move = disks.begin()
    outline = move.outline()
    move.future.begin(outline)
    move.future.copy_some(outline, 700)
    log.delete_records_before(17)
    dropped = apply_retention(log, NOW_MS, high_watermark=30)
    disks.manager.unlink(dropped)
    with pytest.raises(SourceChanged):
        move.future.copy_some(outline, 1 << 20)
    copy(move)
    assert swap(move)
    finish(move)
    assert [record.offset for record in read_all(log)] == list(range(17, 30))
    assert log.segments.first.base_offset > 0
    disks.release()  # a crash: the start was inside a segment, and the checkpoint of the new directory says so
    again = TwoDisks(disks.a.path.parent)
    assert again.log.log_start_offset == 17


def test_a_compaction_under_way_is_given_up(disks: TwoDisks) -> None:
    log = disks.log
    append_many(log, 30)
    flush(log)
    extent = cleaning_extent(log, NOW_MS, high_watermark=30)
    cleaning = Cleaning(log, extent, now_ms=NOW_MS, dedupe_buffer_bytes=1 << 20, io_buffer_bytes=1 << 20)
    move = disks.begin()
    assert cleaning.is_void
    assert swap(move)
    assert cleaning.is_void
    assert not log.local.is_moving


def test_checkpoints_of_the_new_directory_speak_of_the_log_before_it_is_there(disks: TwoDisks) -> None:
    log = disks.log
    append_many(log, 10)
    flush(log)
    disks.a.cleaned_offsets[log.topic_partition] = 4
    disks.manager.write_checkpoints(lambda log: log.log_end_offset)
    capture = disks.manager.begin_capture(lambda log: log.log_end_offset)
    capture.take([log])
    move = disks.begin()
    assert swap(move)
    disks.manager.write(capture)  # it was taken down before, and says that the log is in the old one
    name = log.topic_partition
    assert disks.b.read_offsets(checkpoints.RECOVERY_POINT) == {name: 10}
    assert disks.b.read_offsets(checkpoints.HIGH_WATERMARK) == {name: 10}
    assert disks.b.read_offsets(checkpoints.CLEANER_OFFSET) == {name: 4}
    append_many(log, 1)
    flush(log)
    disks.manager.write_checkpoints(lambda log: log.log_end_offset)
    assert disks.b.read_offsets(checkpoints.RECOVERY_POINT) == {name: 11}
    assert disks.a.read_offsets(checkpoints.RECOVERY_POINT) == {}


def test_there_and_back_again(disks: TwoDisks) -> None:
    log = disks.log
    append_many(log, 10)
    for target in (disks.b, disks.a, disks.b):
        move = disks.begin(target)
        copy(move)
        assert swap(move)
        finish(move)
        append_many(log, 1)
    assert [record.offset for record in read_all(log)] == list(range(13))
    assert (disks.a.log_count, disks.b.log_count) == (0, 1)


def test_segments_that_were_sealed_during_the_swap_have_their_indexes_after_the_next_move_too(disks: TwoDisks) -> None:
    log = disks.log
    append_many(log, 3)
    move = disks.begin()
    outline = move.begin_swap(now_ms=NOW_MS)
    append_many(log, 20)
    sealed = log.segment_base_offsets[len(outline.segments) - 1 : -1]
    assert len(sealed) > 2
    move.future.complete(outline)
    move.prepare(outline, offsets={}, cleaned_offset=None)
    assert move.swap(outline, max_bytes=1 << 20)
    move.end_swap()
    finish(move)
    expected = {segment.base_offset: (segment.largest, len(segment.offset_index)) for segment in log.segments}
    back = disks.begin(disks.a)  # nothing was flushed since
    copy(back)
    assert swap(back)
    finish(back)
    assert {segment.base_offset: (segment.largest, len(segment.offset_index)) for segment in log.segments if segment.size_bytes} == expected
    assert {f"{base:020d}{ending}" for base in sealed for ending in (".index", ".timeindex")} <= content(log.path).keys()


def test_a_move_that_is_given_up_leaves_nothing(disks: TwoDisks) -> None:
    log = disks.log
    append_many(log, 10)
    move = disks.begin()
    copy(move)
    outline = move.begin_swap(now_ms=NOW_MS)
    move.future.complete(outline)
    move.prepare(outline, offsets={}, cleaned_offset=None)
    move.end_swap()
    deleted = move.give_up()
    assert deleted is not None
    assert move.give_up() is None
    move.forget_mark()
    with pytest.raises(CopyFailed, match="given up"):
        copy(move)
    assert disks.b.offline is None
    disks.manager.remove_directory(deleted)
    assert names_in(disks.b.path) == []
    assert "moved-to" not in content(log.path)
    append_many(log, 1)
    flush(log)
    assert not log.local.is_moving


def test_a_copy_that_was_interrupted_is_compared_and_completed(disks: TwoDisks) -> None:
    log = disks.log
    append_many(log, 30)
    move = disks.begin()
    copy(move, max_bytes=500)
    path = move.future.path
    disks.manager.close()
    segments = sorted(path.glob("*.log"))
    segments[0].write_bytes(segments[0].read_bytes()[:-7])
    segments[1].write_bytes(bytes(100) + segments[1].read_bytes()[100:])
    (path / "00000000000000000500.log").write_bytes(b"left over")
    again = TwoDisks(disks.a.path.parent)
    [(found, future)] = again.report.moves
    assert (found, future.path) == (again.log, path)
    move = again.begin()
    move.future.path.joinpath("partition.metadata").unlink()
    move.future.path.rmdir()
    move.future.path = path
    copy(move)
    before = content(again.log.path)
    assert swap(move)
    moved = content(again.log.path)
    assert {name: moved[name] for name in before if name.endswith((".log", "index"))} == {
        name: data for name, data in before.items() if name.endswith((".log", "index"))
    }
    assert [record.offset for record in read_all(again.log)] == list(range(30))


class FailingFiles(Files):
    """Fails with `code` where `is_failing` says so."""

    def __init__(self) -> None:
        self.code = 0
        self.below: Path | None = None
        self.free = 1 << 40

    def free_bytes(self, path: Path) -> int:
        return self.free

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FileHandle:
        if self.below is not None and path.is_relative_to(self.below):
            raise OSError(self.code, "injected")
        return super().open(path, create=create, read_only=read_only)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_ends_the_move_and_nothing_else(tmp_path: Path, code: int) -> None:
    files = FailingFiles()
    disks = TwoDisks(tmp_path, files)
    append_many(disks.log, 10)
    move = disks.begin()
    files.below, files.code = disks.b.path, code
    with pytest.raises(CopyFailed, match="is full"):
        copy(move)
    assert disks.b.offline is None
    append_many(disks.log, 1)


def test_room_is_looked_for_before_anything_is_copied(tmp_path: Path) -> None:
    files = FailingFiles()
    disks = TwoDisks(tmp_path, files)
    append_many(disks.log, 10)
    move = disks.begin()
    files.free = 1000
    with pytest.raises(CopyFailed, match="has room for 1000 bytes"):
        move.future.check_room(move.outline())
    files.free = 1 << 20
    move.future.check_room(move.outline())


def test_a_disk_that_fails_takes_its_own_directory_offline(tmp_path: Path) -> None:
    files = FailingFiles()
    disks = TwoDisks(tmp_path, files)
    append_many(disks.log, 10)
    move = disks.begin()
    files.below, files.code = disks.b.path, errno.EIO
    with pytest.raises(StorageError):
        copy(move)
    assert disks.b.offline is not None
    assert disks.a.offline is None
    append_many(disks.log, 1)


def test_a_source_that_fails_takes_its_own_directory_offline(tmp_path: Path) -> None:
    files = FailingFiles()
    disks = TwoDisks(tmp_path, files)
    append_many(disks.log, 10)
    move = disks.begin()
    files.below, files.code = disks.a.path, errno.EIO
    with pytest.raises(StorageError):
        copy(move)
    assert disks.a.offline is not None
    assert disks.b.offline is None


@pytest.mark.parametrize("side", ["a", "b"])
def test_too_few_descriptors_are_no_failure(tmp_path: Path, side: str) -> None:
    files = FailingFiles()
    disks = TwoDisks(tmp_path, files)
    append_many(disks.log, 10)
    move = disks.begin()
    files.below, files.code = tmp_path / side, errno.EMFILE
    with pytest.raises(OutOfDescriptors):
        copy(move)
    files.below = None
    copy(move)
    assert swap(move)


def test_a_deleted_log_is_no_failure_of_its_disk(disks: TwoDisks) -> None:
    log = disks.log
    append_many(log, 10)
    move = disks.begin()
    outline = move.begin_swap(now_ms=NOW_MS)
    disks.manager.delete("orders", 0)
    with pytest.raises(SourceChanged):
        move.future.complete(outline)
    with pytest.raises(SourceChanged):
        move.prepare(outline, offsets={}, cleaned_offset=None)
    assert not move.swap(outline, max_bytes=1 << 20)
    assert (disks.a.offline, disks.b.offline) == (None, None)


def test_options_that_change_during_the_move_hold_afterwards(disks: TwoDisks) -> None:
    log = disks.log
    append_many(log, 3)
    move = disks.begin()
    log.update_config(replace(CONFIG, segment_bytes=5000))
    assert swap(move)
    append_many(log, 20)
    assert log.segment_base_offsets == [0, 3]
