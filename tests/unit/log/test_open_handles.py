"""How many descriptors logs cost, and what happens when there are none."""

import errno
import gc
from pathlib import Path

import pytest

from millstream.errors import StorageError
from millstream.files import Files, count_open_handles
from millstream.log.config import LogConfig
from tests.batches import encode_batch
from tests.unit.log.conftest import NOW_MS
from tests.unit.log.directories.test_manager import ID, create, load, started
from tests.unit.log.partition import append, append_many, values


def test_an_idle_partition_costs_no_descriptor_and_one_that_was_written_to_costs_one(tmp_path: Path) -> None:
    gc.collect()  # What other tests left must not go while this one counts.
    manager = started(tmp_path)
    before = count_open_handles()
    logs = [create(manager, "orders", number) for number in range(20)]
    assert count_open_handles() == before
    for log in logs[:5]:
        append_many(log, 300)
        assert values(log)
    assert count_open_handles() == before + 5
    manager.close()
    again = started(tmp_path)
    load(again)
    assert count_open_handles() == before
    for log in again:
        append(log, b"after the restart")
    assert count_open_handles() == before + 20
    again.close()


def test_logs_that_had_to_be_recovered_cost_no_descriptor_either(tmp_path: Path) -> None:
    killed = started(tmp_path)
    for number in range(20):
        append_many(create(killed, "orders", number), 3)
    for directory in killed.directories:
        directory.release()
    files = RationedFiles()
    again = started(tmp_path, files=files)
    files.most = count_open_handles() + 5
    load(again)
    files.most = 1 << 30
    assert [len(values(log)) for log in again] == [3] * 20
    for log in again:
        append(log, b"after the recovery")
    again.close()


class RationedFiles(Files):
    """Has no descriptor beyond `most` open files."""

    def __init__(self) -> None:
        self.most = 1 << 30

    def _open_descriptor(self, path: Path, flags: int) -> int:
        if count_open_handles() >= self.most:
            self.close_idle()
        if count_open_handles() >= self.most:
            raise OSError(errno.EMFILE, "Too many open files")
        return super()._open_descriptor(path, flags)


def test_without_descriptors_appends_are_refused_and_the_directory_stays_online(tmp_path: Path) -> None:
    append_many(create(closing := started(tmp_path), "orders"), 50)
    closing.close()
    files = RationedFiles()
    manager = started(tmp_path, files=files)
    manager.load(lambda _topic: LogConfig(index_interval_bytes=1))
    log = manager.get("orders", 0)
    assert log is not None
    for left in range(2):
        files.most = count_open_handles() + left
        with pytest.raises(StorageError, match="Too many open files"):
            append(log, b"refused")
        log.segments.release()
    files.most = count_open_handles() + 2
    append(log, b"accepted")
    files.most = 0
    for number in range(1200):
        append(log, f"{number}".encode())
    files.most = 1 << 30
    append(log, b"there is room again")
    assert manager.directories[0].offline is None
    assert len(values(log)) == 50 + 1 + 1200 + 1
    manager.close()
    again = started(tmp_path)
    load(again)
    assert len(values(next(iter(again)))) == 50 + 1 + 1200 + 1
    again.close()


def test_without_a_descriptor_for_what_lies_far_behind_its_end_a_log_stays_as_it_is(tmp_path: Path) -> None:
    files = RationedFiles()
    manager = started(tmp_path, files=files)
    log = create(manager, "orders")
    batch = encode_batch([b"from the leader"], base_offset=3_000_000_000)
    files.most = count_open_handles()
    with pytest.raises(StorageError, match="Too many open files"):
        log.append_as_follower(batch, now_ms=NOW_MS)
    files.most = 1 << 30
    assert log.segment_base_offsets == [0]
    append(log, b"from a producer")
    manager.close()
    again = started(tmp_path)
    load(again)
    assert values(next(iter(again))) == [b"from a producer"]
    again.close()


def test_sealed_segments_that_were_read_are_closed_when_descriptors_run_out(tmp_path: Path) -> None:
    files = RationedFiles()
    manager = started(tmp_path, files=files)
    log = manager.create("orders", 0, topic_id=ID, config=LogConfig(segment_bytes=200))
    append_many(log, 40)
    files.most = count_open_handles() + 3
    assert len(values(log)) == 40
    assert len(log.segment_base_offsets) > 10
    files.most = 1 << 30
    manager.close()
