"""Where files of the lake are: a directory of this machine, or of a store that Arrow knows (`hdfs://`, `s3://`, `gs://`)."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from pyarrow import fs

from millstream.errors import UsageError
from millstream.lake.errors import LakeFull, LakeRefused

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_REFUSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG})


class Place(NamedTuple):
    """A directory: Arrow's file system, and the path there."""

    files: Any
    path: str

    def child(self, relative: str) -> str:
        """The path of something below it."""
        return str(PurePosixPath(self.path) / relative)

    def make_directory(self, relative: str) -> None:
        """Make a directory, and those above it."""
        self.files.create_dir(self.child(relative), recursive=True)

    def delete(self, relative: str) -> None:
        """Delete a file, if it is there."""
        try:
            self.files.delete_file(self.child(relative))
        except FileNotFoundError:
            return

    def exists(self, relative: str) -> bool:
        """Whether there is something below it."""
        return bool(self.files.get_file_info(self.child(relative)).type != fs.FileType.NotFound)

    def is_there(self) -> bool:
        """Whether there is anything in the directory, or in its place."""
        return bool(self.files.get_file_info(self.path).type != fs.FileType.NotFound)


def open_place(address: str) -> Place:
    """The directory at an address; a path without a scheme is one of this machine."""
    address = normal_address(address)
    if "://" not in address:
        return Place(fs.LocalFileSystem(), address)
    try:
        return Place(*fs.FileSystem.from_uri(address))
    except (OSError, ValueError, ImportError) as error:
        raise UsageError(f"{address} cannot be opened: {error}") from None


def normal_address(address: str) -> str:
    """The address as Arrow and deltalake both take it: an absolute path, or a scheme that both know."""
    if address.startswith("file:"):
        address = "/" + address.removeprefix("file:").lstrip("/")
    if address.startswith("s3a://"):
        address = "s3://" + address.removeprefix("s3a://")
    return address.rstrip("/") if "://" in address else str(Path(address).expanduser().absolute())


@contextmanager
def finished_or_deleted(abandon: Callable[[], None], address: str) -> Iterator[None]:
    """While files of `address` are written: what could not be finished is deleted by `abandon`, and the error says why."""
    try:
        yield
    except OSError as error:
        abandon()
        raise_unwritable(error, address)
        raise
    except BaseException:
        abandon()
        raise


def raise_unwritable(error: OSError, address: str) -> None:
    """Raises `LakeFull` if the error says that there is no room, `LakeRefused` if nothing may be written there; in a sentence each."""
    if error.errno in _FULL:
        raise LakeFull(
            f"there is no room for the files of {address} ({error.strerror or error}): nothing of this micro-batch is in the table. Make "
            "room, and start the load again: it goes on where the table ends."
        ) from error
    if error.errno in _REFUSED:
        raise LakeRefused(
            f"files of {address} cannot be written: {error.strerror or error}. Nothing of this micro-batch is in the table. Give the load "
            "a directory that it may write to (--to), on every worker."
        ) from error
