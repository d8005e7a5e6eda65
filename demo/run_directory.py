"""Where a run keeps its data, logs, tables and pictures: emptied when a run begins, and left for people to look at when it has ended.

A directory that a former run has not made is never emptied, and two runs never share one.
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from millstream.errors import UsageError

MARK: Final = ".millstream-demo"


@contextmanager
def open_run_directory(directory: Path) -> Iterator[Path]:
    """The directory, empty and this run's alone; `UsageError` if it is not for us."""
    directory = directory.resolve()
    if directory.is_dir() and any(directory.iterdir()) and not (directory / MARK).exists():
        raise UsageError(f"{directory} has something in it that no demo has made: name an empty directory, or one that is not there.")
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is not a directory: name one, or something that is not there.")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        opened = (directory / MARK).open("w")
    except OSError as error:
        raise UsageError(f"{directory} cannot be used: {error.strerror}. Name another place with --directory.") from None
    with opened as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another demo runs in {directory}: stop it first, or name another place with --directory.") from None
        _empty(directory)
        yield directory


def _empty(directory: Path) -> None:
    for path in directory.iterdir():
        if path.name == MARK:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
