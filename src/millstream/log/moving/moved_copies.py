"""At a start: which of the copies of a log is the log, and which moves were under way. The other half of `log_move`.

A copy whose directory has a mark was about to be replaced, or was:

    moved-to    pIyqLJ8xTRqQoZ0jBOSLWg        the `directory.id` of the data directory that has the copy

For each log, by the copies that have its name:

    one without a mark                  it is the log; those with a mark are out of date, and go
    several without a mark              a person has to decide (a disk came back that was replaced): the start is refused
    only marked ones, all disks work    the one whose successor never got its name is the log, and loses the mark
    only marked ones, a disk is away    the log may be on that disk: none is used, the partition is offline until the disk is back, or is
                                        given up with --forget-directory

A `-future` directory is no log, whatever is in it. Where its log is, the move goes on. Of a topic that is gone, be there another one of its
name, or beside another copy of the same log, it goes. Where the log was not found it is set aside: it may be all that is left of it.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from millstream.errors import StartupError, StorageError
from millstream.files import Files
from millstream.log.directories.checkpoints import read_topic_id
from millstream.log.directories.directory import LogDirectory, deleted_directory_name, parse_directory_name, parse_future_name
from millstream.log.log import Log
from millstream.topic_partition import TopicPartition

MOVED_TO: Final = "moved-to"


class Copy(NamedTuple):
    """A directory with the name of a log."""

    directory: LogDirectory
    path: Path
    moved_to: str | None
    """The id of the data directory that was to have it."""


class FutureCopy(NamedTuple):
    """A directory with the beginning of a copy."""

    directory: LogDirectory
    path: Path


class SortedFutures(NamedTuple):
    """What is to become of copies that were not finished."""

    moves: Sequence[tuple[Log, FutureCopy]]
    """Moves that go on."""
    unneeded: Sequence[Path]
    orphans: Sequence[Path]
    """Where the log is not here."""


@dataclass(slots=True)
class MovedCopies:
    """What was found, and what is to become of it."""

    unused: set[Path] = field(default_factory=set)
    """Directories with the name of a log that are not to be opened."""
    outdated: list[Path] = field(default_factory=list)
    """Those of them that were replaced, under their new names, to be removed."""
    futures: dict[TopicPartition, list[FutureCopy]] = field(default_factory=dict)
    """Copies that were not finished."""


def find_moved(files: Files, directories: Iterable[LogDirectory], is_wanted: Callable[[str, UUID | None], bool]) -> MovedCopies:
    """Look at the names in all directories that work, and settle what can be settled; StartupError if two copies are as good.

    `is_wanted` says, of a topic's name and id, whether it is known: directories of others are no copies.
    """
    directories = list(directories)
    found = MovedCopies()
    copies: dict[TopicPartition, list[Copy]] = defaultdict(list)
    for directory in directories:
        if directory.offline is None:
            _look_into(files, directory, copies, found.futures)
    are_all_there = all(directory.offline is None for directory in directories)
    for name, of_one_log in copies.items():
        if len(of_one_log) > 1 or of_one_log[0].moved_to is not None:
            own = [copy for copy in of_one_log if is_wanted(name.topic, read_topic_id(files, copy.path))]
            _settle(files, own, found, are_all_there=are_all_there)
    return found


def sort_futures(
    futures: Mapping[TopicPartition, Sequence[FutureCopy]], log_of: Callable[[str, int], Log | None], topics: Collection[str] | None
) -> SortedFutures:
    """What is to become of the copies that were not finished, now that the logs are open. `topics`: those that are known."""
    moves: list[tuple[Log, FutureCopy]] = []
    unneeded: list[Path] = []
    orphans: list[Path] = []
    for name, copies in futures.items():
        log = log_of(*name)
        if log is not None:
            elsewhere = [copy for copy in copies if copy.directory is not log.directory and _is_of(log, copy)]
            moves += [(log, copy) for copy in elsewhere[:1]]
            unneeded += [copy.path for copy in copies if copy not in elsewhere[:1]]
        elif topics is not None and name.topic not in topics:
            unneeded += [copy.path for copy in copies]
        else:
            orphans += [copy.path for copy in copies]
    return SortedFutures(moves, unneeded, orphans)


def _is_of(log: Log, copy: FutureCopy) -> bool:
    """Whether the copy was made of this log, and not of one of an older topic of the same name; one that says nothing is taken for it."""
    try:
        found = read_topic_id(copy.directory.files, copy.path)
    except OSError as error:
        copy.directory.fail("looking for logs", error)
        return False
    return found is None or log.topic_id is None or found == log.topic_id


def mark_moved(files: Files, path: Path, directory_id: str) -> None:
    """Mark the log in `path`; that is on the disk when this returns."""
    files.write_atomically(path / MOVED_TO, f"{directory_id}\n".encode())


def _look_into(
    files: Files, directory: LogDirectory, copies: Mapping[TopicPartition, list[Copy]], futures: dict[TopicPartition, list[FutureCopy]]
) -> None:
    try:
        for name in files.list_directory(directory.path):
            path = directory.path / name
            future, current = parse_future_name(name), parse_directory_name(name)
            if future is not None:
                futures.setdefault(future, []).append(FutureCopy(directory, path))
            elif current is not None and path.is_dir():
                mark = path / MOVED_TO
                moved_to = files.read_bytes(mark).decode(errors="replace").strip() if files.exists(mark) else None
                copies[current].append(Copy(directory, path, moved_to))
    except OSError as error:
        directory.fail("looking for logs", error)


def _settle(files: Files, copies: list[Copy], found: MovedCopies, *, are_all_there: bool) -> None:
    if not copies:
        return
    chosen = chosen_copy(copies, are_all_there=are_all_there)
    found.unused.update(copy.path for copy in copies if copy is not chosen)
    if chosen is None:
        return
    try:
        # Its name may not be on the disk yet; and with the mark it would be out of date as soon as another copy comes back.
        with chosen.directory.guarded("taking up a log that moved"):
            files.fsync_directory(chosen.directory.path)
            if chosen.moved_to is not None:
                files.unlink(chosen.path / MOVED_TO)
                files.fsync_directory(chosen.path)
        for copy in copies:
            if copy is not chosen:
                found.outdated.append(_removed(files, copy))
    except StorageError as error:
        if are_all_there and all(copy.directory.offline is None for copy in copies):
            raise StartupError(str(error)) from error


def _removed(files: Files, copy: Copy) -> Path:
    """Take the name of a log away from a copy that is out of date; its new path."""
    name = parse_directory_name(copy.path.name)
    assert name is not None
    deleted = copy.path.with_name(deleted_directory_name(name))
    with copy.directory.guarded("removing a log that moved away"):
        files.rename(copy.path, deleted)
        files.fsync_directory(copy.directory.path)
    return deleted


def chosen_copy(copies: list[Copy], *, are_all_there: bool) -> Copy | None:
    """The copy that is the log; None if it may be on a disk that is away. StartupError if two are as good."""
    candidates = [copy for copy in copies if copy.moved_to is None]
    if not candidates:
        if not are_all_there:
            return None
        present = {copy.directory.id_text for copy in copies}
        candidates = [copy for copy in copies if copy.moved_to not in present]
    if len(candidates) != 1:
        one, other = (candidates or copies)[:2]
        advice = "move one of the two elsewhere"
        raise StartupError(f"{one.path.name} is in {one.path.parent} and in {other.path.parent}: {advice}")
    return candidates[0]
