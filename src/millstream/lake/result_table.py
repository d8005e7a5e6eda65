"""A Delta table that the results of a job are appended to, each micro-batch once.

The number of the last micro-batch of a query is an application transaction of the table, in the same commit as its rows: a micro-batch that
comes again after a crash is left out, and of two drivers that write at once one fails.
"""

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError, SchemaMismatchError

from millstream.lake.errors import LoadConflict, TableMismatch
from millstream.lake.place import normal_address
from millstream.lake.table_opening import find_table, has_batch, query_key


class ResultTable:
    """One table, at its address; nothing is kept open between two calls."""

    def __init__(self, address: str) -> None:
        self.address = normal_address(address)

    def check(self) -> None:
        """Raises `TableMismatch` if there is something that is no table."""
        self._open()

    def has(self, query_id: str, batch_id: int) -> bool:
        """Whether this micro-batch is in the table."""
        table = self._open()
        return table is not None and has_batch(table, query_id, batch_id)

    def append(self, rows: pa.Table, query_id: str, batch_id: int) -> bool:
        """Append the rows of a micro-batch; False if the table has it already."""
        table = self._open()
        try:
            if table is None:
                table = DeltaTable.create(self.address, DeltaSchema.from_arrow(rows.schema), mode="error")
            elif has_batch(table, query_id, batch_id):
                return False
            properties = CommitProperties(app_transactions=[Transaction(query_key(query_id), batch_id)])
            write_deltalake(table, rows, mode="append", commit_properties=properties)
        except CommitFailedError as error:
            raise LoadConflict(
                f"the table {self.address} was written to by another run of this job at the same moment: let one run at a time. ({error})"
            ) from None
        except (SchemaMismatchError, pa.ArrowInvalid) as error:
            raise TableMismatch(
                f"the table {self.address} has other columns than these results, {', '.join(rows.schema.names)}: give the job a table of "
                f"its own. ({error})"
            ) from None
        except DeltaError as error:
            raise TableMismatch(f"the table {self.address} did not take micro-batch {batch_id}: {error}") from None
        return True

    def _open(self) -> DeltaTable | None:
        return find_table(self.address, is_leftover=lambda _name: False, advice="give the results another place, or move it away")
