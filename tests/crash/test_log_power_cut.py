"""A power cut after every single file operation of a log's life, with every fate of what was not synced.

After recovery the log holds a beginning of what was written, at least what was flushed, and goes on from there. The recovery itself is
interrupted at every operation, too.
"""

import errno
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from millstream.errors import StorageError
from millstream.files import FileHandle, Files
from millstream.log.config import LogConfig
from millstream.log.directories.manager import LogManager
from millstream.log.log import Log
from millstream.log.retention import apply_retention
from tests.crash.forgetful_files import Fate, ForgetfulFiles, Stopped, disk_after, materialise
from tests.manual_clock import ManualClock
from tests.unit.log.partition import append, flush, offset_for_timestamp, read_all

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=150, retention_ms=-1)
TOPIC_ID = uuid.UUID(int=7)


class Promise(NamedTuple):
    """What has to hold if the power goes after so many operations."""

    operations: int
    histories: list[list[bytes]]
    """Values, from offset 0 on: the log must be a beginning of one of them."""
    durable_end: int
    log_start_offset: int


NOTHING = Promise(0, [[]], 0, 0)


class Life:
    """A log that writes down what it promises while it is used."""

    def __init__(self, root: Path, files: ForgetfulFiles) -> None:
        self.manager = started(root, files)
        self.log = self.manager.create("orders", 0, topic_id=TOPIC_ID, config=CONFIG)
        self.files = files
        self.values: list[bytes] = []
        self.promises: list[Promise] = []
        self.promise()

    def promise(self, *others: list[bytes]) -> None:
        moment = len(self.files.recording.operations)
        histories = [list(self.values), *map(list, others)]
        self.promises.append(Promise(moment, histories, self.log.durable_end, self.log.log_start_offset))

    def append(self, count: int, *, prefix: str = "") -> None:
        for _ in range(count):
            value = f"{prefix}{self.log.log_end_offset}".encode().ljust(60, b".")
            self.values.append(value)
            self.promise(self.values[:-1])
            sequence = self.log.log_end_offset
            append(self.log, value, producer_id=1, producer_epoch=0, base_sequence=sequence)
            self.promise()

    def flush(self) -> None:
        flush(self.log)
        self.promise()

    def truncate(self, offset: int) -> None:
        old = self.values
        self.values = old[:offset]
        durable = min(self.log.durable_end, offset)
        moment = len(self.files.recording.operations)
        self.promises.append(Promise(moment, [list(old)], durable, self.log.log_start_offset))
        self.log.truncate_to(offset)
        self.promise()


class QuickFiles(Files):
    """For looking at a disk that is thrown away afterwards."""

    def fsync(self, handle: FileHandle) -> None:
        pass

    def fsync_directory(self, directory: Path) -> None:
        pass


def release(manager: LogManager) -> None:
    """The process is gone: its locks are free."""
    for directory in manager.directories:
        directory.release()


def started(root: Path, files: Files) -> LogManager:
    manager = LogManager([root], clock=ManualClock(), files=files)
    manager.start(node_id=1, cluster_id="abc")
    manager.load(lambda _topic: CONFIG)
    return manager


def appends_and_rolls(life: Life) -> None:
    life.append(7)
    life.flush()
    life.append(8)
    life.manager.write_checkpoints()
    life.append(2)


def checkpoint_between_flushes(life: Life) -> None:
    life.append(5)
    life.flush()
    life.manager.write_checkpoints()
    life.append(5)
    life.flush()
    life.append(1)


def truncation(life: Life) -> None:
    life.append(12)
    life.flush()
    life.manager.write_checkpoints()
    life.truncate(4)
    life.append(10, prefix="new ")
    life.flush()
    life.append(1)


def retention(life: Life) -> None:
    life.append(14)
    life.flush()
    life.log.delete_records_before(9)
    life.promise()
    dropped = apply_retention(life.log, life.log.local.last_flush_ms, high_watermark=14)
    life.promise()
    life.manager.unlink(dropped)
    life.append(3)


def expiry_of_everything(life: Life) -> None:
    """Nothing was ever flushed when the last record expires: the offsets must not begin at 0 again once a file is given up."""
    life.append(5)
    for _ in range(2):
        life.log.delete_records_before(5)
        dropped = apply_retention(life.log, life.log.local.last_flush_ms, high_watermark=5)
        life.promise()
        if not dropped:
            life.flush()
    life.manager.unlink(dropped)
    life.promise()


def clean_stop(life: Life) -> None:
    life.append(9)
    life.manager.close()
    life.promise()


LIVES = [appends_and_rolls, checkpoint_between_flushes, truncation, retention, expiry_of_everything, clean_stop]


def lived(tmp_path: Path, story: Callable[[Life], None]) -> Life:
    root = tmp_path / "disk"
    root.mkdir()
    life = Life(root, ForgetfulFiles(root))
    story(life)
    release(life.manager)
    return life


def check(log: Log | None, promise: Promise, *, where: str) -> None:
    """The log keeps the promise; a log without any record may be gone as a whole."""
    if log is None:
        assert promise.durable_end == 0, where
        return
    found = [record.value for record in read_all(log)]
    start = log.log_start_offset
    assert start <= promise.log_start_offset, where
    assert log.log_end_offset >= promise.durable_end, where
    assert len(found) == log.log_end_offset - start, where
    beginnings = [history[start : log.log_end_offset] for history in promise.histories]
    assert found in beginnings, where
    entry = next(iter(log.producers), None)
    if found:
        assert entry is not None, where
        assert entry.last_offset == log.log_end_offset - 1, where


def promise_at(life: Life, moment: int) -> Promise:
    """The last promise made before the moment; the next one's history may have begun."""
    last = [NOTHING, *(promise for promise in life.promises if promise.operations <= moment)][-1]
    coming = next((promise for promise in life.promises if promise.operations > moment), last)
    start = max(last.log_start_offset, coming.log_start_offset)
    return last._replace(histories=last.histories + coming.histories, log_start_offset=start)


@pytest.mark.parametrize("fate", Fate)
@pytest.mark.parametrize("story", LIVES)
def test_after_a_power_cut_at_any_moment_the_log_is_a_beginning_of_what_was_written(
    tmp_path: Path, story: Callable[[Life], None], fate: Fate
) -> None:
    life = lived(tmp_path, story)
    root = tmp_path / "disk"
    for moment in range(len(life.files.recording.operations) + 1):
        after = tmp_path / "after"
        materialise(disk_after(life.files.recording, moment, fate), root=root, target=after)
        promise = promise_at(life, moment)
        where = f"{fate.name} after {moment} operations"
        manager = started(after, QuickFiles())
        log = manager.get("orders", 0)
        check(log, promise, where=where)
        if log is not None:
            append(log, b"goes on")
            assert read_all(log)[-1].value == b"goes on"
        release(manager)
        shutil.rmtree(after)


@pytest.mark.parametrize("is_flushed_again", [False, True])
@pytest.mark.parametrize("fate", Fate)
def test_segment_that_is_sealed_when_it_is_durable_keeps_its_times(tmp_path: Path, fate: Fate, *, is_flushed_again: bool) -> None:
    # Each record is flushed, as with flush.messages=1, so the segment has no unsynced record when it is sealed; but its indexes are.
    root, config = tmp_path / "disk", LogConfig(segment_bytes=40_000, index_interval_bytes=1, retention_ms=-1)
    root.mkdir()
    files = ForgetfulFiles(root)
    manager = started(root, files)
    log = manager.create("orders", 0, topic_id=TOPIC_ID, config=config)
    while len(log.segment_base_offsets) == 1:
        if log.log_end_offset > log.durable_end:
            flush(log)
        append(log, b"v", timestamp=1_700_000_000_000 + log.log_end_offset)
    if is_flushed_again:
        flush(log)
    manager.write_checkpoints()
    last_sealed = log.segment_base_offsets[1] - 1
    release(manager)
    after = tmp_path / "after"
    materialise(disk_after(files.recording, len(files.recording.operations), fate), root=root, target=after)
    found = started(after, QuickFiles()).get("orders", 0)
    assert found is not None
    youngest = offset_for_timestamp(found, 1_700_000_000_000 + last_sealed)
    assert youngest is not None
    assert youngest.offset == last_sealed


def test_recovery_may_be_interrupted_at_any_moment_as_well(tmp_path: Path) -> None:
    life = lived(tmp_path, truncation)
    recording = life.files.recording
    for moment in range(0, len(recording.operations), 9):
        for fate in (Fate.TORN, Fate.REORDERED, Fate.ZEROS):
            first = tmp_path / "first"
            materialise(disk_after(recording, moment, fate), root=tmp_path / "disk", target=first)
            files = ForgetfulFiles(first)
            manager = started(first, files)
            recovered = manager.get("orders", 0)
            reached = recovered.log_end_offset if recovered else 0
            release(manager)
            for second_moment in range(len(files.recording.operations) + 1):
                for second_fate in (Fate.ALL_LOST, Fate.ALL_KEPT, Fate.TORN):
                    second = tmp_path / "second"
                    materialise(disk_after(files.recording, second_moment, second_fate), root=first, target=second)
                    again = started(second, QuickFiles())
                    where = f"{fate.name} after {moment}, then {second_fate.name} after {second_moment}"
                    check(again.get("orders", 0), promise_at(life, moment), where=where)
                    log = again.get("orders", 0)
                    assert log is None or log.log_end_offset == reached, where
                    release(again)
                    shutil.rmtree(second)
            shutil.rmtree(first)


@pytest.mark.parametrize("fails_at", ["open", "fsync_directory"])
def test_flush_that_lacked_descriptors_forgets_nothing(tmp_path: Path, fails_at: str) -> None:
    class FewDescriptors(ForgetfulFiles):
        is_out = False

        def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FileHandle:
            if self.is_out and fails_at == "open" and path.name == "partition.metadata":
                raise OSError(errno.EMFILE, "Too many open files")
            return super().open(path, create=create, read_only=read_only)

        def fsync_directory(self, directory: Path) -> None:
            if self.is_out and fails_at == "fsync_directory":
                raise OSError(errno.EMFILE, "Too many open files")
            super().fsync_directory(directory)

    root = tmp_path / "disk"
    root.mkdir()
    files = FewDescriptors(root)
    life = Life(root, files)
    life.append(3)
    files.is_out = True
    if fails_at == "open":
        with pytest.raises(StorageError):
            life.log.begin_flush()
    else:
        running = life.log.begin_flush()
        assert running is not None
        with pytest.raises(OSError, match="Too many open files") as failure:
            running.run()
        life.log.fail_flush(running, failure.value)
    files.is_out = False
    assert life.log.directory.offline is None
    life.flush()
    release(life.manager)
    after = tmp_path / "after"
    materialise(disk_after(files.recording, len(files.recording.operations), Fate.ALL_LOST), root=root, target=after)
    log = started(after, QuickFiles()).get("orders", 0)
    assert log is not None
    assert (len(read_all(log)), log.topic_id) == (3, TOPIC_ID)


def lived_until_stopped(root: Path, files: ForgetfulFiles, story: Callable[[Life], None]) -> Life | None:
    """The life up to the operation at which the process dies; None if it did not come to have a log."""
    life = None
    try:
        life = Life(root, files)
        story(life)
    except Stopped:
        if life is not None:
            release(life.manager)
        return life
    raise AssertionError("nothing stopped it")


@pytest.mark.parametrize("story", LIVES)
def test_process_may_die_at_any_file_operation(tmp_path: Path, story: Callable[[Life], None]) -> None:
    """Unlike a power cut, this leaves everything that was done: what a `kill -9` does, at every place."""
    total = len(lived(tmp_path, story).files.recording.operations)
    for stop_at in range(total):
        root = tmp_path / f"killed{stop_at}"
        root.mkdir()
        files = ForgetfulFiles(root, stop_at=stop_at)
        life = lived_until_stopped(root, files, story)
        manager = started(root, QuickFiles())
        log = manager.get("orders", 0)
        if life is not None and log is not None:
            check(log, promise_at(life, stop_at), where=f"died at {stop_at}")
        release(manager)
        shutil.rmtree(root)
