"""A Delta table at an address, or none yet; and whether it has a micro-batch of a query, by its application transaction."""

from collections.abc import Callable
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow import fs

from millstream.lake.errors import TableMismatch
from millstream.lake.place import Place, open_place

_LOG: Final = "_delta_log"


def find_table(address: str, *, is_leftover: Callable[[str], bool], advice: str) -> DeltaTable | None:
    """The table; None if there is none. `TableMismatch`, with `advice`, if there is anything else than leftovers, by their names.

    Another writer may make the table between our looks. So the log is looked at last: if it has commits by now, the table is opened after
    all, and if not, what was in the directory before is no table's. A log without commits is a table in the making, or never made.
    """
    table = _open(address)
    if table is not None:
        return table
    place = open_place(address)
    is_free = _is_free(place, is_leftover)
    if _has_commits(place):
        table = _open(address)
        is_free = False
    if table is None and not is_free:
        raise TableMismatch(f"{address} is there and is no Delta table: {advice}")
    return table


def _open(address: str) -> DeltaTable | None:
    try:
        return DeltaTable(address)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        raise TableMismatch(f"{address} cannot be opened as a Delta table: {error}") from None


def _is_free(place: Place, is_leftover: Callable[[str], bool]) -> bool:
    """Whether nothing is there but leftovers, and perhaps a log."""
    if place.files.get_file_info(place.path).type == fs.FileType.File:
        return False
    return all(one.base_name == _LOG or is_leftover(one.base_name) for one in _entries(place, ""))


def _has_commits(place: Place) -> bool:
    """Whether there is a log that says anything; what is being written to it has other names."""
    return any(one.base_name.endswith((".json", ".parquet")) for one in _entries(place, _LOG))


def _entries(place: Place, relative: str) -> list[fs.FileInfo]:
    wanted = fs.FileSelector(place.child(relative), allow_not_found=True)
    found: list[fs.FileInfo]
    try:
        found = place.files.get_file_info(wanted)
    except FileNotFoundError:
        # Arrow finds no directory, looks whether there is one, and complains if by then another writer has made it: now it is there.
        found = place.files.get_file_info(wanted)
    return found


def query_key(query_id: str) -> str:
    """The application transaction that says which micro-batch of a query was the last."""
    return f"millstream/query/{query_id}"


def has_batch(table: DeltaTable, query_id: str, batch_id: int) -> bool:
    """Whether this micro-batch of the query, or a later one, is in the table."""
    known = table.transaction_version(query_key(query_id))
    return known is not None and known >= batch_id
