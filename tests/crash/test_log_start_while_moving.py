"""DeleteRecords and checkpoints while a log moves to another disk, and a power cut, or the end of the process, after every file operation.

Where a log starts is as durable as the last checkpoint that said so. Which of the two copies turns out to be the log must make no
difference: what a checkpoint said was deleted stays deleted.
"""

from pathlib import Path

import pytest

from tests.crash.forgetful_files import Fate, ForgetfulFiles, disk_after, materialise
from tests.crash.test_log_power_cut import QuickFiles
from tests.unit.log.conftest import NOW_MS
from tests.unit.log.moving_log import EVERYTHING, TwoDisks, copy, finish, offsets_of
from tests.unit.log.partition import append_many, flush

COUNT = 9
KEPT = (Fate.ALL_KEPT, Fate.ALL_KEPT)
FATES = [KEPT, (Fate.ALL_LOST, Fate.ALL_LOST), (Fate.ALL_KEPT, Fate.ALL_LOST), (Fate.ALL_LOST, Fate.ALL_KEPT)]
"""What became of the first disk and of the second."""


class Life:
    """A log whose start is put one further again and again, while it moves."""

    def __init__(self, root: Path) -> None:
        self.files = ForgetfulFiles(root)
        self.disks = TwoDisks(root, self.files)
        self.log = self.disks.log
        append_many(self.log, COUNT)
        flush(self.log)
        self.promises: list[tuple[int, int]] = []
        """After so many operations: where the log starts from now on."""

    def delete_a_record(self) -> None:
        self.log.delete_records_before(self.log.log_start_offset + 1)
        self.disks.manager.write_checkpoints(lambda log: log.log_end_offset)
        self.promises.append((len(self.files.recording.operations), self.log.log_start_offset))

    def move(self) -> None:
        self.delete_a_record()
        move = self.disks.begin()
        copy(move)
        is_swapped, tries = False, 0
        while not is_swapped:
            tries += 1
            outline = move.begin_swap(now_ms=NOW_MS)
            self.delete_a_record()
            offsets = offsets_of(self.log)
            move.future.complete(outline)
            if tries == 1:
                self.delete_a_record()
            move.prepare(outline, offsets=offsets, cleaned_offset=None)
            if tries == 2:
                self.delete_a_record()
            is_swapped = move.swap(outline, max_bytes=EVERYTHING)
            move.end_swap()
        self.delete_a_record()
        finish(move)
        self.delete_a_record()


@pytest.mark.parametrize("fates", FATES)
def test_what_was_deleted_stays_deleted(tmp_path: Path, fates: tuple[Fate, Fate]) -> None:
    root = tmp_path / "lived"
    for name in "ab":
        (root / name).mkdir(parents=True)
    life = Life(root)
    life.move()
    life.disks.release()
    begin = life.promises[0][0]
    for moment in range(begin, len(life.files.recording.operations) + 1):
        found: dict[Path, bytes | None] = {}
        for name, fate in zip(("a", "b"), fates, strict=True):
            left = disk_after(life.files.recording, moment, fate)
            found |= {path: content for path, content in left.items() if path.is_relative_to(root / name)}
        target = tmp_path / str(moment)
        materialise(found, root=root, target=target)
        disks = TwoDisks(target, QuickFiles())
        promised = max(start for operations, start in life.promises if operations <= moment)
        assert disks.log.log_start_offset >= promised, (moment, life.promises)
        assert disks.log.log_end_offset == COUNT
        disks.release()
