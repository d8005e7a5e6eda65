import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from millstream.errors import StartupError, StorageError
from millstream.files import Files
from millstream.log.directories import checkpoints
from millstream.log.directories import directory as directory_module
from millstream.log.directories.directory import (
    LogDirectory,
    NotedDirectories,
    deleted_directory_name,
    parse_directory_name,
)
from millstream.topic_partition import TopicPartition


def make(path: Path) -> LogDirectory:
    return LogDirectory(Files(), path, on_offline=lambda _directory, _error: None)


def started(path: Path, *, node_id: int = 1, cluster_id: str | None = "abc") -> LogDirectory:
    directory = make(path)
    directory.acquire()
    directory.identify(node_id=node_id, cluster_id=cluster_id)
    directory.begin()
    return directory


def test_directory_in_use_is_refused_with_its_name(tmp_path: Path) -> None:
    first = make(tmp_path)
    first.acquire()
    with pytest.raises(StartupError, match=f"{tmp_path} is in use by another broker"):
        make(tmp_path).acquire()
    first.release()
    make(tmp_path).acquire()


def test_lock_holds_between_processes(tmp_path: Path) -> None:
    directory = make(tmp_path)
    directory.acquire()
    code = "import fcntl, sys; fcntl.flock(open(sys.argv[1], 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    other = subprocess.run([sys.executable, "-c", code, str(tmp_path / ".lock")], capture_output=True, check=False)
    assert b"BlockingIOError" in other.stderr


def test_error_of_the_disk_is_reported_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make(tmp_path / "file" / "data").acquire()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_directory_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        make(tmp_path).acquire()


def test_meta_properties_are_kafkas_and_stay(tmp_path: Path) -> None:
    directory = started(tmp_path)
    content = (tmp_path / "meta.properties").read_text()
    lines = [line for line in content.splitlines() if not line.startswith("#")]
    assert [line.split("=")[0] for line in lines] == ["cluster.id", "directory.id", "node.id", "version"]
    assert {"cluster.id=abc", "node.id=1", "version=1"} < set(lines)
    directory.release()
    again = started(tmp_path)
    assert again.directory_id == directory.directory_id
    assert (tmp_path / "meta.properties").read_text() == content


def test_directory_of_another_node_or_cluster_is_refused(tmp_path: Path) -> None:
    started(tmp_path).release()
    with pytest.raises(StartupError, match="belongs to node 1, this is node 2: give --node-id 1, or another --data"):
        started(tmp_path, node_id=2)
    with pytest.raises(StartupError, match="belongs to cluster abc, this is cluster xyz: give the --zookeeper of that one"):
        started(tmp_path, cluster_id="xyz")
    assert started(tmp_path, cluster_id=None).cluster_id == "abc"


def test_damaged_directory_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("directory.id=x\n")
    with pytest.raises(StartupError, match="damaged"):
        started(tmp_path)


def test_marker_of_a_clean_stop_is_seen_once(tmp_path: Path) -> None:
    directory = started(tmp_path)
    assert not directory.was_clean
    directory.mark_clean(broker_epoch=42)
    directory.release()
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":42}'
    again = started(tmp_path)
    assert (again.was_clean, again.previous_broker_epoch) == (True, 42)
    again.release()
    assert not started(tmp_path).was_clean


def test_damaged_marker_still_means_a_clean_stop_of_an_unknown_epoch(tmp_path: Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b"")
    directory = started(tmp_path)
    assert (directory.was_clean, directory.previous_broker_epoch) == (True, -1)


def test_truncation_lowers_the_recovery_point_on_disk_at_once(tmp_path: Path) -> None:
    directory = started(tmp_path)
    directory.write_offsets(checkpoints.RECOVERY_POINT, {TopicPartition("a", 0): 100, TopicPartition("b", 0): 7})
    directory.lower_recovery_point(TopicPartition("a", 0), 40)
    assert directory.read_offsets(checkpoints.RECOVERY_POINT) == {
        TopicPartition("a", 0): 40,
        TopicPartition("b", 0): 7,
    }


def test_truncation_wins_over_points_that_were_taken_before_it(tmp_path: Path) -> None:
    directory = started(tmp_path)
    directory.begin_capture()
    taken = {TopicPartition("a", 0): 100}
    directory.lower_recovery_point(TopicPartition("a", 0), 40)
    directory.write_offsets(checkpoints.RECOVERY_POINT, taken)
    assert directory.read_offsets(checkpoints.RECOVERY_POINT) == {TopicPartition("a", 0): 40}
    directory.begin_capture()
    directory.write_offsets(checkpoints.RECOVERY_POINT, {TopicPartition("a", 0): 90})
    assert directory.read_offsets(checkpoints.RECOVERY_POINT) == {TopicPartition("a", 0): 90}


class InterruptedFiles(Files):
    """Files that are written so slowly that something else happens."""

    meanwhile: Callable[[], None] | None = None

    def write_atomically(self, path: Path, content: bytes, *, is_name_synced: bool = True) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        super().write_atomically(path, content, is_name_synced=is_name_synced)


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda directory, name: directory.lower_recovery_point(name, 40), {TopicPartition("a", 0): 40}),
        (lambda directory, name: directory.begin_anew(name), {}),
    ],
)
def test_capture_that_begins_while_a_log_waits_for_another_checkpoint_forgets_nothing_of_it(
    tmp_path: Path, change: Callable[[LogDirectory, TopicPartition], None], left: dict[TopicPartition, int]
) -> None:
    files, name = InterruptedFiles(), TopicPartition("a", 0)
    directory = LogDirectory(files, tmp_path, on_offline=lambda _directory, _error: None)
    directory.begin()
    directory.write_offsets(checkpoints.RECOVERY_POINT, {name: 100})
    thread = Thread(target=change, args=(directory, name))

    def meanwhile() -> None:
        thread.start()
        thread.join(0.1)
        directory.begin_capture()

    files.meanwhile = meanwhile
    directory.write_offsets(checkpoints.HIGH_WATERMARK, {name: 90})
    thread.join()
    assert directory.read_offsets(checkpoints.RECOVERY_POINT) == left


def test_failing_is_reported_once_and_stays(tmp_path: Path) -> None:
    reported: list[LogDirectory] = []
    directory = LogDirectory(Files(), tmp_path, on_offline=lambda failed, _error: reported.append(failed))
    directory.check_online()
    for _ in range(2):
        with pytest.raises(StorageError), directory.guarded("writing"):
            raise OSError(errno.EIO, "Input/output error")
    assert reported == [directory]
    with pytest.raises(StorageError, match="Input/output error"):
        directory.check_online()
    with pytest.raises(StorageError):
        directory.write_offsets(checkpoints.HIGH_WATERMARK, {})


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("orders-0", ("orders", 0)),
        ("a-b-12", ("a-b", 12)),
        ("__consumer_offsets-49", ("__consumer_offsets", 49)),
        ("orders", None),
        ("-0", None),
        ("orders-", None),
        ("orders-x", None),
        ("orders-0.abc-delete", None),
        ("orders-0.abc-stray", None),
    ],
)
def test_names_of_log_directories(name: str, parsed: tuple[str, int] | None) -> None:
    assert parse_directory_name(name) == parsed
    if parsed is not None:
        assert str(TopicPartition(*parsed)) == name


def test_name_of_a_deleted_log_is_new_each_time_and_never_too_long() -> None:
    long = deleted_directory_name(TopicPartition("t" * 249, 100))
    assert len(long) <= 255
    assert long.endswith("-delete")
    assert deleted_directory_name(TopicPartition("a", 0)) != deleted_directory_name(TopicPartition("a", 0))
    assert deleted_directory_name(TopicPartition("a", 0)).startswith("a-0.")


def test_of_many_noted_places_the_last_ones_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_module, "MOST_NOTED", 3)
    noted, place = NotedDirectories(), make(tmp_path)
    names = [TopicPartition("new", number) for number in range(5)]
    for name in [*names[:3], names[0], *names[3:]]:
        noted.note(name, place)
    assert [noted.take(name) for name in names] == [place, None, None, place, place]
    assert noted.take(names[0]) is None
