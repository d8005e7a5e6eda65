import errno
import os
import resource
import uuid
from pathlib import Path

import pytest

from millstream.errors import StartupError, StorageError
from millstream.files import FileHandle, Files
from millstream.log.config import LogConfig
from millstream.log.directories.directory import LogDirectory
from millstream.log.directories.manager import LoadReport, LogManager
from millstream.log.log import Log
from millstream.topic_partition import TopicPartition
from tests.manual_clock import ManualClock
from tests.unit.log.partition import append, append_many, flush, values

ID = uuid.UUID(int=7)


def started(*paths: Path, files: Files | None = None, offline: list[Path] | None = None) -> LogManager:
    def failed(directory: LogDirectory, _error: OSError) -> None:
        if offline is not None:
            offline.append(directory.path)

    manager = LogManager(paths, clock=ManualClock(), files=files, on_offline=failed)
    manager.start(node_id=1, cluster_id="abc")
    return manager


def load(manager: LogManager, **topic_ids: uuid.UUID) -> LoadReport:
    return manager.load(lambda _topic: LogConfig(), topic_ids=topic_ids or None)


def create(manager: LogManager, topic: str, partition: int = 0, *, topic_id: uuid.UUID = ID) -> Log:
    return manager.create(topic, partition, topic_id=topic_id, config=LogConfig())


def test_logs_survive_a_clean_stop(tmp_path: Path) -> None:
    manager = started(tmp_path)
    append_many(create(manager, "orders"), 3)
    create(manager, "empty", 4)
    manager.close(broker_epoch=9, high_watermark_of=lambda log: log.log_end_offset - 1)
    again = started(tmp_path)
    assert again.previous_broker_epoch == 9
    load(again)
    log = again.get("orders", 0)
    assert log is not None
    assert (len(again), log.log_end_offset, log.durable_end, log.topic_id) == (2, 3, 3, ID)
    assert again.high_watermarks[TopicPartition("orders", 0)] == 2
    assert (tmp_path / "recovery-point-offset-checkpoint").read_bytes() == b"0\n2\nempty 4 0\norders 0 3\n"


def test_logs_survive_an_unclean_stop(tmp_path: Path) -> None:
    manager = started(tmp_path)
    append_many(create(manager, "orders"), 3)
    for directory in manager.directories:
        directory.release()
    again = started(tmp_path)
    assert again.previous_broker_epoch == -1
    load(again)
    log = again.get("orders", 0)
    assert log is not None
    assert len(values(log)) == 3


class FewDescriptors(Files):
    """Cannot open files with this ending while `is_out`."""

    def __init__(self, ending: str) -> None:
        self._ending = ending
        self.is_out = False

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FileHandle:
        if self.is_out and path.name.endswith(self._ending):
            raise OSError(errno.EMFILE, "Too many open files")
        return super().open(path, create=create, read_only=read_only)


def test_logs_that_cannot_be_opened_for_want_of_descriptors_stop_the_start(tmp_path: Path) -> None:
    manager = started(tmp_path)
    append_many(create(manager, "orders"), 3)
    for directory in manager.directories:
        directory.release()
    files = FewDescriptors(".log")
    again = started(tmp_path, files=files)
    files.is_out = True
    # To go on would be to make the log anew: unrecovered, or empty in another directory.
    with pytest.raises(StartupError, match="Too many open files"):
        load(again)


def test_failed_sync_of_what_was_recovered_takes_one_directory_offline_and_no_more(tmp_path: Path) -> None:
    paths, config = (tmp_path / "a", tmp_path / "b"), LogConfig(flush_messages=1)

    class FailingFiles(Files):
        def fsync(self, handle: FileHandle) -> None:
            if handle.path.is_relative_to(tmp_path / "a") and handle.path.suffix == ".log":
                raise OSError(errno.EIO, "Input/output error")
            super().fsync(handle)

    manager = started(*paths)
    for number in range(2):
        append_many(manager.create("t", number, topic_id=ID, config=config), 2)
    for directory in manager.directories:
        directory.release()
    again = started(*paths, files=FailingFiles())
    again.load(lambda _topic: config)
    assert [directory.offline is None for directory in again.directories] == [False, True]
    assert [len(values(log)) for log in again] == [2]


def test_log_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    manager = started(tmp_path)
    log = create(manager, "orders")
    assert create(manager, "orders") is log
    assert manager.get("orders", 1) is None


def test_new_log_goes_where_the_fewest_are(tmp_path: Path) -> None:
    manager = started(tmp_path / "a", tmp_path / "b")
    places = [create(manager, "t", number).directory.path.name for number in range(4)]
    assert sorted(places) == ["a", "a", "b", "b"]
    manager.delete("t", places.index("b"))
    assert create(manager, "t", 9).directory.path.name == "b"


def test_start_offset_survives(tmp_path: Path) -> None:
    manager = started(tmp_path)
    log = create(manager, "orders")
    append_many(log, 5)
    log.delete_records_before(2)
    manager.close()
    again = started(tmp_path)
    load(again)
    log = next(iter(again))
    assert (log.log_start_offset, len(values(log))) == (2, 3)


def test_deleted_log_is_renamed_at_once_and_removed_later(tmp_path: Path) -> None:
    manager = started(tmp_path)
    log = create(manager, "orders")
    append_many(log, 3)
    region = log.read(0, max_bytes=1000, limit_offset=3)
    assert region is not None
    renamed = manager.delete("orders", 0)
    assert renamed is not None
    assert not log.path.exists()
    assert manager.delete("orders", 0) is None
    assert append(create(manager, "orders", topic_id=uuid.uuid4()), b"x").base_offset == 0
    manager.remove_directory(renamed)
    assert not renamed.exists()
    assert len(Files().pread(region.handle, region.length, region.position)) == region.length
    with pytest.raises(StorageError):
        append(log, b"x")


def test_leftovers_of_deleted_logs_are_reported_at_start(tmp_path: Path) -> None:
    manager = started(tmp_path)
    append_many(create(manager, "orders"), 3)
    renamed = manager.delete("orders", 0)
    manager.close()
    again = started(tmp_path)
    assert load(again).deleted == [renamed]
    assert len(again) == 0


@pytest.mark.parametrize("name", ["photos-delete", "do-not-delete", "orders-0.backup-delete"])
def test_directory_that_only_ends_like_a_deleted_log_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    manager = started(tmp_path)
    assert load(manager).deleted == []
    manager.close()
    assert (tmp_path / name).is_dir()


def test_log_of_an_unknown_topic_is_reported_and_left_alone(tmp_path: Path) -> None:
    manager = started(tmp_path)
    for topic in ("known", "gone", "other"):
        append_many(create(manager, topic), 1)
    manager.close()
    again = started(tmp_path)
    report = load(again, known=ID, other=uuid.UUID(int=8))
    assert sorted(path.name for path in report.strays) == ["gone-0", "other-0"]
    assert [log.topic for log in again] == ["known"]
    assert again.set_aside(tmp_path / "gone-0").name.endswith("-stray")


def test_new_topic_does_not_begin_with_the_records_of_an_older_one(tmp_path: Path) -> None:
    manager = started(tmp_path)
    append_many(create(manager, "orders"), 3)
    manager.close()
    again = started(tmp_path)
    load(again, orders=uuid.UUID(int=8))
    log = create(again, "orders", topic_id=uuid.UUID(int=8))
    assert log.log_end_offset == 0
    assert len(list(tmp_path.glob("orders-0.*-stray/*.log"))) == 1


def test_older_topic_with_the_longest_name_can_be_set_aside(tmp_path: Path) -> None:
    manager, name = started(tmp_path), "t" * 249
    append_many(create(manager, name), 3)
    manager.close()
    again = started(tmp_path)
    load(again, **{name: uuid.UUID(int=8)})
    assert create(again, name, topic_id=uuid.UUID(int=8)).log_end_offset == 0
    assert again.directories[0].offline is None
    assert len(list(tmp_path.glob("t*-stray/*.log"))) == 1


@pytest.mark.parametrize("is_captured_before", [False, True])
def test_log_that_begins_anew_inherits_no_checkpoint_from_one_of_the_same_name(tmp_path: Path, *, is_captured_before: bool) -> None:
    manager = started(tmp_path)
    old = create(manager, "orders")
    append_many(old, 9)
    flush = old.begin_flush()
    assert flush is not None
    flush.run()
    old.complete_flush(flush, now_ms=0)
    old.delete_records_before(7)
    capture = manager.begin_capture(lambda log: log.log_end_offset)
    capture.take(manager)
    if not is_captured_before:
        manager.write(capture)
    manager.delete("orders", 0)
    new = create(manager, "orders", topic_id=uuid.UUID(int=8))
    append_many(new, 3)
    if is_captured_before:
        manager.write(capture)
    manager.directories[0].release()
    again = started(tmp_path)
    load(again)
    log = again.get("orders", 0)
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset, len(values(log))) == (0, 3, 3)
    assert ("orders", 0) not in again.directories[0].recovery_points
    assert ("orders", 0) not in again.high_watermarks


def test_checkpoints_that_are_written_late_do_not_replace_later_ones(tmp_path: Path) -> None:
    manager = started(tmp_path)
    log = create(manager, "orders")
    append_many(log, 10)
    log.delete_records_before(9)
    capture = manager.begin_capture()
    capture.take(manager)
    manager.delete("orders", 0)
    append_many(create(manager, "orders", topic_id=uuid.UUID(int=8)), 2)
    manager.close()
    manager.write(capture)  # by a thread that was slow while the broker stopped
    again = started(tmp_path)
    load(again)
    assert [len(values(log)) for log in again] == [2]


def test_high_watermarks_that_are_written_late_do_not_replace_later_checkpoints(tmp_path: Path) -> None:
    manager = started(tmp_path)
    append_many(create(manager, "orders"), 3)
    capture = manager.begin_high_watermarks(lambda log: log.log_end_offset)
    capture.take(manager)
    manager.write(capture)
    manager.write_checkpoints(lambda _log: 2)
    manager.write(capture)
    assert (tmp_path / "replication-offset-checkpoint").read_bytes() == b"0\n1\norders 0 2\n"
    manager.close()


def test_log_that_lost_its_label_in_a_crash_is_labelled_again(tmp_path: Path) -> None:
    manager = started(tmp_path)
    append_many(create(manager, "orders"), 3)
    manager.close()
    (tmp_path / "orders-0" / "partition.metadata").write_bytes(b"")
    again = started(tmp_path)
    load(again, orders=ID)
    assert create(again, "orders").log_end_offset == 3
    assert create(again, "orders").topic_id == ID
    again.close()
    last = started(tmp_path)
    load(last)
    assert next(iter(last)).topic_id == ID


def test_retention_over_all_logs(tmp_path: Path) -> None:
    manager = started(tmp_path)
    log = manager.create("orders", 0, topic_id=ID, config=LogConfig(retention_bytes=0))
    append_many(log, 3)
    assert manager.apply_retention(manager, lambda log: log.log_end_offset) == []
    flush(log)
    [(dropped_log, dropped)] = manager.apply_retention(manager, lambda log: log.log_end_offset)
    assert dropped_log is log
    assert log.log_start_offset == 3
    manager.unlink(dropped)
    assert not list(log.path.glob("*.deleted"))


def test_producers_expire_in_all_logs(tmp_path: Path) -> None:
    manager = started(tmp_path)
    log = create(manager, "orders")
    append(log, b"x", producer_id=1, producer_epoch=0, base_sequence=0)
    manager.expire_producers(manager, expiration_ms=1)
    assert len(log.producers) == 1
    manager.expire_producers(manager, expiration_ms=0)
    assert list(log.producers) == []


class BadDisk(Files):
    """Files in one directory cannot be synced."""

    def __init__(self, bad: Path) -> None:
        self._bad = bad

    def fsync(self, handle: FileHandle) -> None:
        if handle.path.is_relative_to(self._bad) and handle.path.suffix == ".log":
            raise OSError(errno.EIO, "Input/output error")
        super().fsync(handle)


def test_bad_disk_goes_offline_and_the_other_goes_on(tmp_path: Path) -> None:
    offline: list[Path] = []
    manager = started(tmp_path / "a", tmp_path / "b", files=BadDisk(tmp_path / "a"), offline=offline)
    logs = {log.directory.path.name: log for log in (create(manager, "t", number) for number in range(2))}
    for log in logs.values():
        append_many(log, 1)
    running = logs["a"].begin_flush()
    assert running is not None
    with pytest.raises(OSError, match="Input/output") as failure:
        running.run()
    logs["a"].fail_flush(running, failure.value)
    assert offline == [tmp_path / "a"]
    append_many(logs["b"], 1)
    assert create(manager, "new").directory.path.name == "b"
    manager.close()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()


def test_start_goes_on_without_a_directory_whose_disk_is_dead(tmp_path: Path) -> None:
    (tmp_path / "dead").write_bytes(b"")
    offline: list[Path] = []
    manager = started(tmp_path / "dead" / "data", tmp_path / "good", offline=offline)
    assert offline == [tmp_path / "dead" / "data"]
    load(manager)
    append(create(manager, "orders"), b"kept")
    manager.close()
    assert [directory.path.name for directory in manager.online_directories] == ["good"]


def test_start_without_any_directory_that_works_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dead").write_bytes(b"")
    with pytest.raises(StartupError, match=f"{tmp_path}/dead/two cannot be used: Not a directory"):
        started(tmp_path / "dead" / "one", tmp_path / "dead" / "two")


def test_log_that_is_in_two_directories_is_refused_until_a_person_decides(tmp_path: Path) -> None:
    for name in ("one", "two"):
        manager = started(tmp_path / name)
        create(manager, "orders")
        manager.close()
    with pytest.raises(StartupError, match=f"orders-0 is in {tmp_path}/one and in {tmp_path}/two: move one"):
        load(started(tmp_path / "one", tmp_path / "two"))


def test_disk_that_fails_at_close_is_not_marked_clean(tmp_path: Path) -> None:
    offline: list[Path] = []
    manager = started(tmp_path, files=BadDisk(tmp_path), offline=offline)
    append_many(create(manager, "t"), 1)
    manager.close()
    assert offline == [tmp_path]
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("ending", [".timeindex", "leader-epoch-checkpoint.tmp"])
def test_log_that_cannot_be_closed_for_want_of_descriptors_is_not_marked_clean(tmp_path: Path, ending: str) -> None:
    class OutOfDescriptors(Files):
        def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FileHandle:
            if path.name.endswith(ending) and path.parent.name == "orders-0":
                raise OSError(errno.EMFILE, "Too many open files")
            return super().open(path, create=create, read_only=read_only)

    manager = started(tmp_path, files=OutOfDescriptors())
    logs = [create(manager, topic) for topic in ("orders", "clicks")]
    for log in logs:
        append_many(log, 3)
    manager.close()
    assert [log.durable_end for log in logs] == [0, 3]
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_closing_many_logs_needs_few_descriptors_at_a_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manager = started(tmp_path)
    logs = [create(manager, "many", number) for number in range(100)]
    for log in logs:
        append_many(log, 1)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(map(int, os.listdir("/proc/self/fd"))) + 250
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if limits[1] == resource.RLIM_INFINITY else min(wanted, limits[1]), limits[1]))
    try:
        manager.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert [log.durable_end for log in logs] == [1] * 100
    assert "not closed cleanly" not in caplog.text


def test_without_a_working_directory_nothing_can_be_made(tmp_path: Path) -> None:
    manager = started(tmp_path)
    manager.directories[0].fail("testing", OSError(errno.EIO, "Input/output error"))
    with pytest.raises(StorageError, match="no log directory is online"):
        create(manager, "t")


def test_second_broker_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    manager = started(tmp_path)
    with pytest.raises(StartupError, match="in use"):
        started(tmp_path)
    manager.close()
    started(tmp_path)


def test_refused_start_holds_no_lock(tmp_path: Path) -> None:
    blocker = started(tmp_path / "b")
    with pytest.raises(StartupError):
        started(tmp_path / "a", tmp_path / "b")
    started(tmp_path / "a")
    blocker.close()


def test_log_whose_flush_is_required_is_durable_to_its_end_after_an_unclean_start(tmp_path: Path) -> None:
    manager = started(tmp_path)
    config = LogConfig(flush_messages=1)
    append_many(manager.create("orders", 0, topic_id=ID, config=config), 3)
    del manager
    again = started(tmp_path)
    again.load(lambda _topic: config)
    [log] = again
    assert (log.durable_end, log.log_end_offset) == (3, 3)


def test_logs_of_a_topic_of_which_nothing_is_known_for_now_wait_for_it(tmp_path: Path) -> None:
    manager = started(tmp_path / "one", tmp_path / "two")
    append(create(manager, "orders"), b"kept")
    append(create(manager, "events"), b"of another topic")
    manager.close()
    again = started(tmp_path / "one", tmp_path / "two")
    report = again.load(lambda _topic: LogConfig(), topic_ids={}, doubtful={"orders", "events"})
    assert report.strays == []
    assert values(again.create("orders", 0, topic_id=ID, config=LogConfig(retention_ms=7))) == [b"kept"]
    log = again.get("orders", 0)
    assert log is not None
    assert log.config.retention_ms == 7
    assert values(again.create("events", 0, topic_id=uuid.UUID(int=8), config=LogConfig())) == []
    assert len(list(tmp_path.glob("*/events-0*-stray"))) == 1
    again.close()
