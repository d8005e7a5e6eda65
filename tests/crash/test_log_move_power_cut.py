"""A power cut, or the end of the process, after every single file operation of a log's move to another disk.

The two disks share no journal: each may have kept what the other lost. After the start one of the copies is the log, whole: at least what
was flushed, and after the mere end of the process all that was appended. No copy comes back later, the log goes on, and so does the move.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from millstream.log.moving.log_move import LogMove
from tests.crash.forgetful_files import Fate, ForgetfulFiles, Stopped, disk_after, materialise
from tests.crash.test_log_power_cut import QuickFiles
from tests.unit.log.conftest import NOW_MS
from tests.unit.log.moving_log import TOPIC_ID, TwoDisks, copy, finish, swap
from tests.unit.log.partition import append, flush, read_all

KEPT = (Fate.ALL_KEPT, Fate.ALL_KEPT)
FATES = [
    KEPT,
    (Fate.ALL_LOST, Fate.ALL_LOST),
    (Fate.ALL_KEPT, Fate.ALL_LOST),
    (Fate.ALL_LOST, Fate.ALL_KEPT),
    (Fate.DATA_LOST, Fate.NAMES_LOST),
    (Fate.NAMES_LOST, Fate.DATA_LOST),
    (Fate.TORN, Fate.ZEROS),
    (Fate.ZEROS, Fate.TORN),
    (Fate.REORDERED, Fate.LAST_LOST),
]
"""What became of the first disk and of the second."""


class Promise(NamedTuple):
    """What has to hold after so many operations."""

    operations: int
    appended: int
    flushed: int


class Life:
    """A log that moves, and what it promises meanwhile."""

    def __init__(self, root: Path, files: ForgetfulFiles) -> None:
        self.files = files
        self.disks = TwoDisks(root, files)
        self.log = self.disks.log
        self.promises = [Promise(0, 0, 0)]
        self.began = 0
        """The operation with which the move begins."""

    def append(self, count: int) -> None:
        for _ in range(count):
            number = self.log.log_end_offset
            append(self.log, value_of(number), producer_id=1, producer_epoch=0, base_sequence=number)
            self.promise()

    def flush(self) -> None:
        flush(self.log)
        self.promise()

    def promise(self) -> None:
        self.promises.append(Promise(len(self.files.recording.operations), self.log.log_end_offset, self.log.durable_end))

    def at(self, moment: int) -> Promise:
        return [promise for promise in self.promises if promise.operations <= moment][-1]


def value_of(number: int) -> bytes:
    return str(number).encode().ljust(60, b".")


def live(life: Life) -> None:
    """Appends and flushes before, during and after a move."""
    life.append(5)
    life.flush()
    life.disks.manager.write_checkpoints(lambda log: log.log_end_offset)
    life.began = len(life.files.recording.operations)
    move = life.disks.begin()
    copy(move, max_bytes=300)
    life.append(1)
    life.flush()
    copy(move)
    swap_under_load(life, move)
    life.append(2)
    life.flush()
    finish(move)
    life.append(1)
    life.flush()


def swap_under_load(life: Life, move: LogMove) -> None:
    life.append(1)
    outline = move.begin_swap(now_ms=NOW_MS)
    life.append(1)
    move.future.complete(outline)
    life.append(1)
    move.prepare(outline, offsets={}, cleaned_offset=None)
    move.future.copy_tail(outline, move.tail(outline))
    life.append(1)
    assert move.swap(outline, max_bytes=1 << 20)
    move.end_swap()
    life.append(1)
    life.flush()


def crashed(life: Life, root: Path, moment: int, fates: tuple[Fate, Fate], target: Path) -> None:
    """Write the disks as the crash left them."""
    found: dict[Path, bytes | None] = {}
    for name, fate in zip(("a", "b"), fates, strict=True):
        left = disk_after(life.files.recording, moment, fate)
        found |= {path: content for path, content in left.items() if path.is_relative_to(root / name)}
    materialise(found, root=root, target=target)


def check(root: Path, promise: Promise, *, is_all_kept: bool) -> None:
    """Start, read, and let the log live on and move on."""
    disks = TwoDisks(root, QuickFiles())
    log = disks.log
    records = read_all(log)
    assert [record.offset for record in records] == list(range(len(records)))
    assert all(record.value == value_of(record.offset) for record in records)
    assert len(records) >= (promise.appended if is_all_kept else promise.flushed)
    assert len([path for path in root.glob("*/orders-0") if path.is_dir()]) == 1
    append(log, value_of(log.log_end_offset), producer_id=1, producer_epoch=0, base_sequence=log.log_end_offset)
    assert len(disks.report.moves) <= 1
    if is_all_kept:
        move_on(disks, root)
    else:
        disks.release()


def move_on(disks: TwoDisks, root: Path) -> None:
    """Finish the move that was begun, or begin another one."""
    log, count = disks.log, len(read_all(disks.log))
    target = disks.b if log.directory is disks.a else disks.a
    move = disks.begin(target)
    for found, future in disks.report.moves:
        assert found is log
        move.future.path.joinpath("partition.metadata").unlink()
        move.future.path.rmdir()
        move.future.path = future.path
        move.future.make(TOPIC_ID)
    copy(move)
    assert swap(move)
    finish(move)
    assert len(read_all(log)) == count
    disks.manager.close()
    again = TwoDisks(root, QuickFiles())
    assert len(read_all(again.log)) == count
    assert again.report.moves == []
    again.manager.close()


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Life, Path]:
    root = tmp_path_factory.mktemp("lived") / "root"
    root.mkdir()
    life = Life(root, ForgetfulFiles(root))
    live(life)
    life.disks.release()
    return life, root


def test_after_a_crash_anywhere_one_of_the_copies_is_the_log(lived: tuple[Life, Path], tmp_path: Path) -> None:
    life, root = lived
    operations = life.files.recording.operations
    marked = next(number for number, operation in enumerate(operations) if operation.path.name == "moved-to.tmp")
    settled = next(number for number, operation in enumerate(operations) if (operation.target or root).name.endswith("-delete"))
    for moment in range(life.began, len(operations) + 1):
        is_decided_here = marked - 2 <= moment <= settled + 3
        for number, fates in enumerate(FATES if is_decided_here else (KEPT, FATES[1 + moment % (len(FATES) - 1)])):
            target = tmp_path / f"{moment}-{number}"
            crashed(life, root, moment, fates, target)
            check(target, life.at(moment), is_all_kept=fates == KEPT)


def test_a_start_after_the_crash_may_be_interrupted_anywhere_too(lived: tuple[Life, Path], tmp_path: Path) -> None:
    life, root = lived
    operations = life.files.recording.operations
    renames = [
        number for number, operation in enumerate(operations) if operation.kind == "rename" and operation.target == root / "b/orders-0"
    ]
    for moment in range(renames[0] - 1, renames[0] + 6):
        for fates in FATES[:4]:
            for stop_at in range(1000):
                target = tmp_path / f"{moment}-{FATES.index(fates)}-{stop_at}"
                crashed(life, root, moment, fates, target)
                try:
                    TwoDisks(target, ForgetfulFiles(target, stop_at=stop_at)).release()
                except Stopped as stopped:
                    stopped.__traceback__ = None  # it keeps the locks
                    check(target, life.at(moment), is_all_kept=fates == KEPT)
                else:
                    break


def test_a_disk_that_is_away_is_waited_for_if_it_may_have_the_log(lived: tuple[Life, Path], tmp_path: Path) -> None:
    """The other copy is out of date as soon as the new one is used, and nothing on its own disk shows whether it was."""
    life, root = lived
    operations = life.files.recording.operations
    swapped = next(number for number, operation in enumerate(operations) if operation.target == root / "b/orders-0")
    crashed(life, root, swapped + 1, KEPT, tmp_path)
    (tmp_path / "b").rename(tmp_path / "away")
    (tmp_path / "b").write_text("a disk that answers with errors")
    disks = TwoDisks(tmp_path, QuickFiles())
    assert disks.b.offline is not None
    assert disks.manager.get("orders", 0) is None
    disks.release()
    (tmp_path / "b").unlink()
    (tmp_path / "away").rename(tmp_path / "b")
    check(tmp_path, life.at(swapped + 1), is_all_kept=True)
