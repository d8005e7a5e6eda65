"""Keeping a table quick and small: many small files become few large ones, and files that no version needs are deleted.

Loads may go on meanwhile: compaction changes no row, and keeps the application transactions that make loads exact. Files that a killed task
left behind are found only by looking at all files (`full`), and a file that a load is writing at this moment looks the same: so nothing
younger than the retention is touched, and it has to be longer than any micro-batch takes.
"""

from dataclasses import dataclass
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow import fs

from millstream.errors import CommandFailed, UsageError
from millstream.lake.place import normal_address, open_place

DEFAULT_RETENTION_HOURS: Final = 168
SHORTEST_RETENTION_HOURS: Final = 1
DEFAULT_FILE_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done to one table."""

    table: str
    files_before: int
    files_after: int
    removed: int
    """Old and orphaned files that were deleted, or would be."""


def tables_at(address: str) -> list[str]:
    """The table at an address, or those in the directory that is there."""
    place = open_place(address)
    if place.exists("_delta_log"):
        return [normal_address(address)]
    found = [] if not place.is_there() else place.files.get_file_info(fs.FileSelector(place.path))
    names = sorted(one.base_name for one in found if place.exists(f"{one.base_name}/_delta_log"))
    if not names:
        raise CommandFailed(f"There is no Delta table at {address}, nor in a directory below it.")
    return [f"{normal_address(address)}/{name}" for name in names]


def check_retention(hours: int) -> None:
    """Raises `UsageError` if files of a micro-batch that is under way could be deleted."""
    if hours < SHORTEST_RETENTION_HOURS:
        raise UsageError(f"A retention of {hours} hours could delete what a load is writing now: give at least {SHORTEST_RETENTION_HOURS}.")


def maintain(
    address: str,
    *,
    retention_hours: int = DEFAULT_RETENTION_HOURS,
    file_bytes: int = DEFAULT_FILE_BYTES,
    compacts: bool = True,
    dry_run: bool = False,
) -> Maintained:
    """Compact a table and remove what is older than the retention."""
    check_retention(retention_hours)
    address = normal_address(address)
    try:
        table = DeltaTable(address)
        before = after = len(table.file_uris())
        if compacts and not dry_run:
            table.optimize.compact(target_size=file_bytes)
            table = DeltaTable(address)
            after = len(table.file_uris())
        # The table's own shortest retention is a week; ours is what was asked for.
        removed = table.vacuum(retention_hours, dry_run=dry_run, enforce_retention_duration=False, full=True)
        if not dry_run:
            DeltaTable(address).create_checkpoint()
    except TableNotFoundError:
        raise CommandFailed(f"There is no Delta table at {address}.") from None
    except DeltaError as error:
        raise CommandFailed(f"The table {address} could not be maintained: {error}. It is as it was; try again.") from None
    return Maintained(address, before, after, len(removed))
