from pathlib import Path

import pytest

from millstream.files import FileHandle, Files
from millstream.log.flush import Flush


class CountingFiles(Files):
    def __init__(self, *, error: Exception | None = None) -> None:
        self.synced: list[str] = []
        self._error = error

    def fsync(self, handle: FileHandle) -> None:
        self.synced.append(handle.path.name)
        if self._error is not None:
            raise self._error

    def fsync_directory(self, directory: Path) -> None:
        self.synced.append(directory.name)


def make(files: Files, path: Path) -> Flush:
    handle = files.open(path / "a.log", create=True)
    return Flush(files, 10, [handle], [(path / "epochs", b"content")], [path])


def test_data_is_synced_before_what_speaks_of_it(tmp_path: Path) -> None:
    files = CountingFiles()
    make(files, tmp_path).run()
    assert files.synced == ["a.log", "epochs.tmp", tmp_path.name]
    assert (tmp_path / "epochs").read_bytes() == b"content"


def test_flush_runs_once_however_often_it_is_called(tmp_path: Path) -> None:
    files = CountingFiles()
    flush = make(files, tmp_path)
    flush.run()
    flush.run()
    assert files.synced.count("a.log") == 1


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), MemoryError("no room")])
def test_failed_sync_is_never_tried_again_and_never_passes_for_a_good_one(tmp_path: Path, error: Exception) -> None:
    files = CountingFiles(error=error)
    flush = make(files, tmp_path)
    for _ in range(2):
        with pytest.raises(OSError, match=r"Input/output error|MemoryError: no room"):
            flush.run()
    assert files.synced == ["a.log"]
