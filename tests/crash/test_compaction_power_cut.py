"""A power cut, or the end of the process, after every single file operation of a compaction: the cleaner's and the swap's.

Whatever was there before stays readable: the latest value of each key at its offset, a deleted key deleted or gone, nothing out of order;
and the log goes on where it ended. The next compaction finds a log that it can compact.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from millstream.files import Files
from millstream.log.compaction.cleaning import cleaning_extent
from millstream.log.config import LogConfig
from millstream.log.directories.manager import LogManager
from millstream.log.log import Log
from millstream.wire.records import Record
from tests.crash.forgetful_files import Fate, ForgetfulFiles, Stopped, disk_after, materialise
from tests.crash.test_log_power_cut import TOPIC_ID, QuickFiles, release
from tests.manual_clock import ManualClock
from tests.unit.log.compacted import compact, records_of, write
from tests.unit.log.conftest import NOW_MS
from tests.unit.log.partition import flush

CONFIG = LogConfig(
    segment_bytes=400, index_interval_bytes=150, retention_ms=-1, cleanup_policy=frozenset({"compact"}), delete_retention_ms=1000
)
LATER_MS = NOW_MS + 1000


class Promise(NamedTuple):
    """What has to hold if the power goes after so many operations."""

    operations: int
    end: int
    """Everything before was flushed."""


class Life:
    """A compacted log that remembers everything that was written to it."""

    def __init__(self, root: Path, files: ForgetfulFiles) -> None:
        self.manager = started(root, files)
        self.log = self.manager.create("orders", 0, topic_id=TOPIC_ID, config=CONFIG)
        self.files = files
        self.history: list[Record] = []
        self.promises: list[Promise] = []

    def write(self, *pairs: tuple[bytes, bytes | None]) -> None:
        base = self.log.log_end_offset
        self.history += [Record(base + number, NOW_MS, key, value) for number, (key, value) in enumerate(pairs)]
        write(self.log, *pairs, sequence=base)

    def fill(self, count: int) -> None:
        for number in range(count):
            self.write((b"k%d" % (number % 3), b"%d" % self.log.log_end_offset), (b"l%d" % (number % 5), b"%d" % self.log.log_end_offset))

    def flush(self) -> None:
        flush(self.log)
        self.manager.write_checkpoints()
        self.promises.append(Promise(len(self.files.recording.operations), self.log.log_end_offset))

    def compact(self, *, now_ms: int = NOW_MS) -> None:
        compact(self.log, now_ms=now_ms, files=self.files, is_flushed_first=False)

    @property
    def flushed_end(self) -> int:
        return self.promises[-1].end if self.promises else 0

    def promised_at(self, moment: int) -> int:
        return max((promise.end for promise in self.promises if promise.operations <= moment), default=0)


def started(root: Path, files: Files) -> LogManager:
    manager = LogManager([root], clock=ManualClock(), files=files)
    manager.start(node_id=1, cluster_id="abc")
    manager.load(lambda _topic: CONFIG)
    return manager


def compaction_of_flushed_segments(life: Life) -> None:
    life.fill(12)
    life.log.roll(now_ms=NOW_MS)
    life.flush()
    life.compact()
    life.compact()


def compaction_beside_what_is_not_flushed(life: Life) -> None:
    life.fill(8)
    life.flush()
    life.fill(10)
    extent = cleaning_extent(life.log, NOW_MS, high_watermark=life.log.log_end_offset)
    assert 1 < extent.segment_count < len(life.log.segment_base_offsets) - 2
    life.compact()
    life.fill(2)
    life.flush()


def deletion_of_keys(life: Life) -> None:
    life.fill(6)
    life.write((b"k0", None), (b"k1", None))
    life.log.roll(now_ms=NOW_MS)
    life.flush()
    life.compact()
    life.fill(1)
    life.log.roll(now_ms=NOW_MS)
    life.flush()
    life.compact(now_ms=LATER_MS)


STORIES = [compaction_of_flushed_segments, compaction_beside_what_is_not_flushed, deletion_of_keys]


def check(log: Log | None, life: Life, *, promised: int, where: str) -> None:
    """The log holds a beginning of the history, at least what was promised, compacted or not."""
    if log is None:
        assert promised == 0, where
        return
    end = log.log_end_offset
    assert promised <= end <= len(life.history), where
    found = records_of(log)
    assert [record.offset for record in found] == sorted({record.offset for record in found}), where
    assert all(record == life.history[record.offset] for record in found), where
    latest = {record.key: record for record in life.history[:end]}
    kept = {record.offset for record in found}
    assert [record for record in latest.values() if record.value is not None and record.offset not in kept] == [], where
    last_found = {record.key: record for record in found}
    assert all(latest[key] == record for key, record in last_found.items()), where
    if end:
        assert next(iter(log.producers)).last_offset == end - 1, where
    assert not [*log.path.glob("*.swap"), *log.path.glob("*.cleaned")], where


def check_and_go_on(root: Path, life: Life, *, promised: int, where: str) -> None:
    manager = started(root, QuickFiles())
    log = manager.get("orders", 0)
    check(log, life, promised=promised, where=where)
    if log is not None and log.log_end_offset:
        log.roll(now_ms=NOW_MS)
        if len(log.segment_base_offsets) > 1:
            compact(log, now_ms=LATER_MS, files=QuickFiles())
            check(log, life, promised=promised, where=f"{where}, compacted again")
        entry = next(iter(log.producers))
        assert write(log, (b"new", b"goes on"), sequence=entry.last_sequence + 1) == log.log_end_offset - 1
        assert records_of(log)[-1].value == b"goes on"
    release(manager)


def lived(root: Path, files: ForgetfulFiles, story: Callable[[Life], None]) -> Life:
    life = Life(root, files)
    story(life)
    release(life.manager)
    return life


@pytest.mark.parametrize("fate", Fate, ids=lambda fate: fate.name.lower())
@pytest.mark.parametrize("story", STORIES)
def test_after_a_power_cut_at_any_moment_no_latest_value_is_lost(tmp_path: Path, story: Callable[[Life], None], fate: Fate) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    life = lived(root, ForgetfulFiles(root), story)
    for moment in range(len(life.files.recording.operations) + 1):
        after = tmp_path / "after"
        materialise(disk_after(life.files.recording, moment, fate), root=root, target=after)
        check_and_go_on(after, life, promised=life.promised_at(moment), where=f"{fate.name} after {moment} operations")
        shutil.rmtree(after)


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


@pytest.mark.parametrize("story", STORIES)
def test_process_may_die_at_any_file_operation_of_a_compaction(tmp_path: Path, story: Callable[[Life], None]) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    total = len(lived(whole, ForgetfulFiles(whole), story).files.recording.operations)
    for stop_at in range(total):
        root = tmp_path / "killed"
        root.mkdir()
        life = lived_until_stopped(root, ForgetfulFiles(root, stop_at=stop_at), story)
        if life is not None:
            check_and_go_on(root, life, promised=life.flushed_end, where=f"died at {stop_at}")
        shutil.rmtree(root)


def test_finishing_a_swap_may_be_interrupted_as_well(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    life = lived(root, ForgetfulFiles(root), compaction_of_flushed_segments)
    recording = life.files.recording
    swapping = [number for number, operation in enumerate(recording.operations) if operation.kind == "rename" and ".swap" in str(operation)]
    assert len(swapping) > 10
    for moment in swapping:
        first = tmp_path / "first"
        materialise(disk_after(recording, moment, Fate.ALL_KEPT), root=root, target=first)
        files = ForgetfulFiles(first)
        release(started(first, files))
        for second_moment in range(len(files.recording.operations) + 1):
            for fate in (Fate.ALL_LOST, Fate.ALL_KEPT):
                second = tmp_path / "second"
                materialise(disk_after(files.recording, second_moment, fate), root=first, target=second)
                where = f"after {moment}, then {fate.name} after {second_moment}"
                check_and_go_on(second, life, promised=life.promised_at(moment), where=where)
                shutil.rmtree(second)
        shutil.rmtree(first)
