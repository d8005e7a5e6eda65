from collections import Counter
from pathlib import Path
from uuid import UUID

from millstream.files import FileHandle, Files
from millstream.log.config import LogConfig
from tests.unit.cluster.hosting import started_logs
from tests.unit.log.partition import append_many

COUNT = 3


class CountingFiles(Files):
    """Counts what is opened and synced, by the last two parts of its path."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: Counter[str] = Counter()
        self.synced: Counter[str] = Counter()

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FileHandle:
        self.opened[_name(path)] += 1
        return super().open(path, create=create, read_only=read_only)

    def fsync(self, handle: FileHandle) -> None:
        self.synced[_name(handle.path)] += 1
        super().fsync(handle)

    def fsync_directory(self, directory: Path) -> None:
        self.synced[_name(directory)] += 1
        super().fsync_directory(directory)


def _name(path: Path) -> str:
    return "/".join(path.parts[-2:])


def test_what_a_stop_writes_is_synced_once(tmp_path: Path) -> None:
    files = CountingFiles()
    manager = started_logs(tmp_path, files=files)
    for index in range(COUNT):
        log = manager.create("orders", index, topic_id=UUID(int=7), config=LogConfig())
        log.assign_leader_epoch(1)
        append_many(log, 1)
    files.opened.clear()
    files.synced.clear()
    manager.close()
    in_logs = {name: times for name, times in files.synced.items() if "orders-" in name}
    assert set(in_logs.values()) == {1}
    assert len(in_logs) == COUNT * 7, "the log, two indexes, producers, epochs, whose it is, and the directory"
    assert max(times for name, times in files.opened.items() if "index" in name) == 1
    assert files.synced[_name(tmp_path)] <= 5, "for new logs, three checkpoints and the marker"
