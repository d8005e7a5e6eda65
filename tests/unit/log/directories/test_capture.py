import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.directories.manager import LogManager
from millstream.log.log import Log
from millstream.log.truncation import Truncation
from tests.unit.cluster.hosting import NOW_MS, started_logs
from tests.unit.log.partition import append_many

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"


class CountingFiles(Files):
    """Counts the checkpoints that are written."""

    written: int = 0

    def write_atomically(self, path: Path, content: bytes, *, is_name_synced: bool = True) -> None:
        if path.name.endswith("-offset-checkpoint"):
            self.written += 1
        super().write_atomically(path, content, is_name_synced=is_name_synced)


@pytest.fixture
def files() -> CountingFiles:
    return CountingFiles()


@pytest.fixture
def manager(tmp_path: Path, files: CountingFiles) -> Iterator[LogManager]:
    manager = started_logs(tmp_path, files=files)
    yield manager
    manager.close()


def flushed_log(manager: LogManager, topic: str, *, count: int = 5, topic_id: int = 7) -> Log:
    log = manager.create(topic, 0, topic_id=uuid.UUID(int=topic_id), config=LogConfig())
    append_many(log, count)
    flush = log.begin_flush()
    assert flush is not None
    flush.run()
    log.complete_flush(flush, now_ms=NOW_MS)
    return log


def test_log_that_is_cut_while_the_others_are_captured_is_recovered_from_there(manager: LogManager, tmp_path: Path) -> None:
    cut, other = flushed_log(manager, "cut"), flushed_log(manager, "other")
    capture = manager.begin_capture()
    capture.take([cut])
    truncation = Truncation(cut, 2)
    truncation.run()
    truncation.end()
    capture.take([other])
    manager.write(capture)
    assert (tmp_path / RECOVERY_POINTS).read_text() == "0\n2\ncut 0 2\nother 0 5\n"


def test_log_that_begins_anew_while_the_others_are_captured_is_not_spoken_of(manager: LogManager, tmp_path: Path) -> None:
    former = flushed_log(manager, "former")
    capture = manager.begin_capture()
    capture.take([former])
    manager.delete("former", 0)
    flushed_log(manager, "former", count=1, topic_id=8)
    manager.write(capture)
    assert (tmp_path / RECOVERY_POINTS).read_text() == "0\n0\n"


def test_high_watermark_of_a_log_that_began_anew_is_not_written_when_a_whole_capture_has_begun(manager: LogManager, tmp_path: Path) -> None:
    former = flushed_log(manager, "former")
    high_watermarks = manager.begin_high_watermarks(lambda log: log.log_end_offset)
    high_watermarks.take([former])
    manager.delete("former", 0)
    anew = flushed_log(manager, "former", count=1, topic_id=8)
    whole = manager.begin_capture(lambda log: log.log_end_offset)
    manager.write(high_watermarks)
    assert not (tmp_path / HIGH_WATERMARKS).exists()
    whole.take([anew])
    manager.write(whole)
    assert (tmp_path / HIGH_WATERMARKS).read_text() == "0\n1\nformer 0 1\n"


def test_checkpoints_that_say_the_same_are_not_written_again(manager: LogManager, files: CountingFiles) -> None:
    log = flushed_log(manager, "orders")
    manager.write_checkpoints(lambda _log: 3)
    assert files.written == 3
    manager.write_checkpoints(lambda _log: 3)
    assert files.written == 3
    log.delete_records_before(2)
    manager.write_checkpoints(lambda _log: 4)
    assert files.written == 5
