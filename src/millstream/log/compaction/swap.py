"""How a compacted segment takes the place of the segments it was made of, so that a crash at any moment leaves either them or it.

    1   B.index.cleaned, B.timeindex.cleaned, then B.log.cleaned are renamed to .swap: from the last rename on the new segment counts
    2   the files of the old segments are renamed to .deleted
    3   B.index.swap, B.timeindex.swap, then B.log.swap are renamed to what segments are called

The `.cleaned` files and their names were synced before step 1, and names reach the disk in the order they were changed in. A start that
finds `B.log.swap` does what was left of steps 2 and 3: the old segments are those that begin within the range of the new one. That range is
known because a compacted segment ends with its last batch, even if that is empty. Without a `B.log.swap` nothing had happened yet.
"""

import logging
from pathlib import Path

from millstream.files import Files
from millstream.log.compaction.cleaned_segment import CLEANED_SUFFIX, SWAP_SUFFIX, SwapSegment
from millstream.log.config import LogConfig
from millstream.log.recovery import end_of
from millstream.log.segment import INDEX_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, TIME_INDEX_SUFFIX

_COMMIT_LAST = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX)
_logger = logging.getLogger(__name__)


def commit_swap(files: Files, directory: Path, base_offset: int) -> None:
    """Step 1: from now on the new segment counts."""
    _rename(files, directory, base_offset, source=CLEANED_SUFFIX, target=SWAP_SUFFIX)


def complete_swap(files: Files, directory: Path, base_offset: int) -> None:
    """Step 3: the new segment gets its name; the old ones have lost theirs."""
    _rename(files, directory, base_offset, source=SWAP_SUFFIX, target="")


def finish_swaps(files: Files, directory: Path, *, config: LogConfig) -> None:
    """At a start: finish the swaps that a crash interrupted, and remove what was not to be swapped yet."""
    names = files.list_directory(directory)
    swaps = [name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    for name in swaps:
        _finish(files, directory, int(name.partition(".")[0]), names=names, config=config)
    for name in files.list_directory(directory) if swaps else names:
        if name.endswith((SWAP_SUFFIX, CLEANED_SUFFIX)):
            files.unlink(directory / name)
    if swaps:
        files.fsync_directory(directory)


def remove_cleaned(files: Files, directory: Path) -> None:
    """Remove what an unfinished compaction left; for a thread."""
    try:
        names = files.list_directory(directory)
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith(CLEANED_SUFFIX):
            files.unlink(directory / name)


def _finish(files: Files, directory: Path, base_offset: int, *, names: list[str], config: LogConfig) -> None:
    size = files.status(directory / f"{base_offset:020d}{LOG_SUFFIX}{SWAP_SUFFIX}").size_bytes
    swap = SwapSegment(files, directory, base_offset, config=config, created_ms=0, size_bytes=size)
    end = end_of(files, swap, is_indexed=False)
    swap.release()
    if end is None:
        _logger.error("%s is damaged and is not used", swap.path())
        return
    _logger.info("compaction of %s was interrupted: %s takes its place now", directory, swap.path().name)
    for name in names:
        stem, dot, suffix = name.partition(".")
        if dot + suffix in SEGMENT_SUFFIXES and stem.isdigit() and base_offset < int(stem) < end:
            files.unlink(directory / name)
    complete_swap(files, directory, base_offset)


def _rename(files: Files, directory: Path, base_offset: int, *, source: str, target: str) -> None:
    for suffix in _COMMIT_LAST:
        name = f"{base_offset:020d}{suffix}"
        if files.exists(directory / (name + source)):
            files.rename(directory / (name + source), directory / (name + target))
