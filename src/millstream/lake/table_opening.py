"""A Delta table at an address, or none yet; and whether it has a micro-batch of a query, by its application transaction."""

from collections.abc import Callable

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow import fs

from millstream.lake.errors import TableMismatch
from millstream.lake.place import open_place


def find_table(address: str, *, is_leftover: Callable[[str], bool], advice: str) -> DeltaTable | None:
    """The table; None if there is none. `TableMismatch`, with `advice`, if there is anything else than leftovers, by their names."""
    try:
        return DeltaTable(address)
    except TableNotFoundError:
        pass
    except DeltaError as error:
        raise TableMismatch(f"{address} cannot be opened as a Delta table: {error}") from None
    place = open_place(address)
    kind = place.files.get_file_info(place.path).type
    found = place.files.get_file_info(fs.FileSelector(place.path)) if kind == fs.FileType.Directory else []
    if kind == fs.FileType.File or not all(is_leftover(one.base_name) for one in found):
        raise TableMismatch(f"{address} is there and is no Delta table: {advice}")
    return None


def query_key(query_id: str) -> str:
    """The application transaction that says which micro-batch of a query was the last."""
    return f"millstream/query/{query_id}"


def has_batch(table: DeltaTable, query_id: str, batch_id: int) -> bool:
    """Whether this micro-batch of the query, or a later one, is in the table."""
    known = table.transaction_version(query_key(query_id))
    return known is not None and known >= batch_id
