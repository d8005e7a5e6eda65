import errno
from pathlib import Path
from uuid import UUID

import pytest

from millstream.errors import StorageError
from millstream.files import FileHandle, Files
from millstream.log.config import LogConfig
from millstream.log.directories import checkpoints
from millstream.log.directories.directory import LogDirectory
from millstream.log.directories.manager import LogManager
from millstream.log.log import Log
from millstream.log.truncation import Truncation
from tests.batches import encode_batch
from tests.manual_clock import ManualClock
from tests.unit.log.conftest import NOW_MS
from tests.unit.log.partition import flush


def copied(log: Log, *offsets: int, epoch: int = 0) -> None:
    """Append one batch of one record at each offset, as a follower gets them."""
    data = b"".join(encode_batch([b"v"], base_offset=offset, leader_epoch=epoch, timestamp=NOW_MS) for offset in offsets)
    log.append_as_follower(data, now_ms=NOW_MS)


def test_a_log_that_is_being_cut_is_not_flushed(log: Log) -> None:
    copied(log, 0, 1, 2)
    truncation = Truncation(log, 2)
    assert log.begin_flush() is None
    truncation.run()
    truncation.end()
    assert (log.log_end_offset, log.durable_end) == (2, 0)
    assert log.begin_flush() is not None


def test_a_flush_under_way_is_waited_for_and_says_nothing_of_what_was_cut(log: Log) -> None:
    copied(log, 0, 1, 2)
    running = log.begin_flush()
    assert running is not None
    truncation = Truncation(log, 1)
    running.run()
    log.complete_flush(running, now_ms=NOW_MS)
    assert log.durable_end == 0
    truncation.run()
    truncation.end()
    assert (log.log_end_offset, log.durable_end) == (1, 0)


class FailingSync(Files):
    def fsync(self, handle: FileHandle) -> None:
        raise OSError(errno.EIO, "the disk is gone")


@pytest.mark.parametrize("files", [FailingSync()])
def test_a_flush_that_fails_while_the_log_is_cut_takes_the_directory_offline(log: Log, directory: LogDirectory) -> None:
    copied(log, 0, 1, 2)
    running = log.begin_flush()
    assert running is not None
    truncation = Truncation(log, 1)
    with pytest.raises(OSError, match="the disk is gone"):
        running.run()
    with pytest.raises(StorageError, match="fsync"):
        truncation.run()
    truncation.end()
    assert directory.offline is not None


def test_a_log_can_begin_anew_elsewhere(log: Log) -> None:
    copied(log, 0, 1, 2)
    truncation = Truncation(log, 100, is_whole=True)
    truncation.run()
    truncation.end()
    assert (log.log_start_offset, log.log_end_offset, log.durable_end) == (100, 100, 100)
    copied(log, 100, epoch=4)
    assert log.epoch_of(100) == 4


def test_nothing_from_the_cut_on_counts_as_durable_at_once(log: Log) -> None:
    copied(log, *range(10))
    log.delete_records_before(2)
    flush(log)
    truncation = Truncation(log, 5)
    assert (log.durable_end, log.log_start_offset, log.starts_inside) == (5, 2, True)
    truncation.run()
    truncation.end()
    assert (log.log_end_offset, log.log_start_offset) == (5, 2)


def test_chores_leave_a_log_alone_that_is_being_cut(tmp_path: Path) -> None:
    manager = LogManager((tmp_path,), clock=ManualClock(), on_offline=lambda _directory, _error: None)
    manager.start(node_id=1, cluster_id="abc")
    log = manager.create("orders", 0, topic_id=UUID(int=7), config=LogConfig())
    copied(log, *range(10))
    log.delete_records_before(3)
    Truncation(log, 0, is_whole=True)
    log.segments.remove_above(-1)  # as the thread leaves them for a moment
    assert manager.apply_retention(manager, lambda log: log.log_end_offset) == []
    manager.expire_producers(manager, expiration_ms=0)
    manager.release_idle(manager)
    log.directory.files.close_idle()
    assert not log.is_flush_due(NOW_MS)
    manager.write_checkpoints()
    assert log.directory.read_offsets(checkpoints.LOG_START_OFFSET) == {log.topic_partition: 3}


def test_an_epoch_without_a_record_is_forgotten_by_a_follower(log: Log) -> None:
    """Or else what the new leader wrote in an older epoch would count as written in this one."""
    copied(log, 0, 1, epoch=4)
    log.assign_leader_epoch(5)
    log.forget_empty_epochs()
    copied(log, 2, 3, epoch=4)
    copied(log, 4, epoch=6)
    assert log.epochs.entries == [(4, 0), (6, 4)]


def test_cutting_nothing_off_forgets_epochs_without_a_record(log: Log) -> None:
    copied(log, 0, epoch=4)
    log.assign_leader_epoch(5)
    log.truncate_to(1)
    assert log.epochs.entries == [(4, 0)]
