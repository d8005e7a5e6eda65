"""A log in one of two data directories, and the steps of a move to the other, as the broker takes them."""

import uuid
from pathlib import Path

from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.directories import checkpoints
from millstream.log.directories.directory import LogDirectory, future_directory_name
from millstream.log.directories.manager import LoadReport, LogManager
from millstream.log.log import Log
from millstream.log.moving.log_move import LogMove
from tests.manual_clock import ManualClock
from tests.unit.log.conftest import NOW_MS

TOPIC_ID = uuid.UUID(int=7)
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=150, retention_ms=-1)
EVERYTHING = 1 << 30


class TwoDisks:
    """The directories `a` and `b` below `root`, and the log of `orders-0`, which a new one has in `a`."""

    def __init__(self, root: Path, files: Files | None = None, *, config: LogConfig = CONFIG) -> None:
        self.manager = LogManager([root / "a", root / "b"], clock=ManualClock(), files=files)
        self.manager.start(node_id=1, cluster_id="abc")
        self.report: LoadReport = self.manager.load(lambda _topic: config)
        self.a, self.b = self.manager.directories
        self._config = config

    @property
    def log(self) -> Log:
        return self.manager.create("orders", 0, topic_id=TOPIC_ID, config=self._config)

    def begin(self, target: LogDirectory | None = None) -> LogMove:
        """A copy with nothing in it yet."""
        target = target or self.b
        name = future_directory_name(self.log.topic_partition)
        assert name is not None
        move = LogMove(self.log, target, target.path / name)
        target.begin_anew(self.log.topic_partition)
        move.future.make(TOPIC_ID)
        return move

    def release(self) -> None:
        """The process is gone: its locks are free."""
        for directory in self.manager.directories:
            directory.release()


def copy(move: LogMove, *, max_bytes: int = EVERYTHING) -> None:
    """Copy what there is by now."""
    outline = move.outline()
    move.future.begin(outline)
    while move.future.copy_some(outline, max_bytes):
        pass


def swap(move: LogMove, *, max_bytes: int = EVERYTHING) -> bool:
    """Complete the copy and let it take the place of the log; not settled yet."""
    log = move.log
    outline = move.begin_swap(now_ms=NOW_MS)
    move.future.complete(outline)
    move.prepare(outline, offsets=offsets_of(log), cleaned_offset=log.directory.cleaned_offsets.get(log.topic_partition))
    is_swapped = move.swap(outline, max_bytes=max_bytes)
    move.end_swap()
    return is_swapped


def offsets_of(log: Log) -> dict[str, int]:
    """What the checkpoints of the target are to say of a log that is about to move in."""
    offsets = {checkpoints.HIGH_WATERMARK: log.log_end_offset}
    if log.starts_inside:
        offsets[checkpoints.LOG_START_OFFSET] = log.log_start_offset
    return offsets


def finish(move: LogMove) -> Path:
    """The old files lose their name; where they are now."""
    deleted = move.settle()
    move.settled()
    return deleted
