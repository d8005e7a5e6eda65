"""A replica that is deleted while it moves to another disk, or just after, and comes back; and the end of the process, or of the power, at
every single file operation of that.

Whatever the two disks have kept, the broker starts. What was deleted may come back as it was, if the deletion had not reached the disk;
once the new replica has flushed something, that is what is found, and nothing of the old one.
"""

from pathlib import Path

import pytest

from tests.crash.forgetful_files import Fate, ForgetfulFiles
from tests.crash.test_log_move_power_cut import FATES, KEPT, Life, crashed, value_of
from tests.crash.test_log_power_cut import QuickFiles
from tests.unit.log.moving_log import TwoDisks, copy, finish, swap
from tests.unit.log.partition import append, flush, read_all

NEW = b"new".ljust(60, b".")
OLD_COUNT, NEW_COUNT = 5, 2


class Returning:
    """A log that moves from the first disk to the second, is deleted and comes back on one of them."""

    def __init__(self, root: Path, *, is_moved: bool, back_to: int) -> None:
        self.root = root
        self.life = Life(root, ForgetfulFiles(root))
        disks = self.life.disks
        self.life.append(OLD_COUNT)
        self.life.flush()
        disks.manager.write_checkpoints(lambda log: log.log_end_offset)
        self.began = self._now
        move = disks.begin()
        copy(move, max_bytes=300)
        if is_moved:
            copy(move)
            assert swap(move)
            finish(move)
        else:
            move.give_up()
        name = disks.log.topic_partition
        self.deleted = self._now
        disks.manager.delete(*name)
        disks.manager.prefer(name, disks.manager.directories[back_to])
        log = disks.log
        for _ in range(NEW_COUNT):
            append(log, NEW)
        flush(log)
        self.flushed = self._now
        disks.release()

    @property
    def _now(self) -> int:
        return len(self.life.files.recording.operations)

    def check(self, moment: int, fates: tuple[Fate, Fate], target: Path) -> None:
        crashed(self.life, self.root, moment, fates, target)
        disks = TwoDisks(target, QuickFiles())
        values = [record.value for record in read_all(disks.log)]
        is_old = bool(values) and values[0] != NEW
        assert values == ([value_of(number) for number in range(len(values))] if is_old else [NEW] * len(values))
        assert len([path for path in target.glob("*/orders-0") if path.is_dir()]) == 1
        if moment <= self.deleted:
            assert len(values) == OLD_COUNT
        if moment >= self.flushed:
            assert values == [NEW] * NEW_COUNT
        disks.release()


@pytest.mark.parametrize("is_moved", [False, True])
@pytest.mark.parametrize("back_to", [0, 1])
def test_a_replica_that_is_deleted_and_comes_back_is_never_two(tmp_path: Path, *, is_moved: bool, back_to: int) -> None:
    root = tmp_path / "lived"
    root.mkdir()
    returning = Returning(root, is_moved=is_moved, back_to=back_to)
    for moment in range(returning.began, returning.flushed + 1):
        for number, fates in enumerate(FATES if moment >= returning.deleted else (KEPT, FATES[1])):
            returning.check(moment, fates, tmp_path / f"{moment}-{number}")
