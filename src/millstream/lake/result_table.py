"""A Delta table that the results of a job are appended to, each micro-batch once.

The number of the last micro-batch of a query is an application transaction of the table, in the same commit as its rows: a micro-batch that
comes again after a crash is left out, and of two drivers that write at once one fails.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError, SchemaMismatchError

from millstream.lake.errors import LoadConflict, TableMismatch
from millstream.lake.place import normal_address
from millstream.lake.table_opening import find_table, has_batch, query_key

_NOT_COMPARED: Final = frozenset({"nullable", "containsNull", "valueContainsNull", "metadata"})


class ResultTable:
    """One table, at its address; nothing is kept open between two calls."""

    def __init__(self, address: str) -> None:
        self.address = normal_address(address)

    def check_names(self, names: Sequence[str]) -> None:
        """Raises `TableMismatch` if there is something that is no table, or a table with other columns."""
        table = self._open()
        known = None if table is None else [field.name for field in table.schema().fields]
        if known is not None and sorted(known) != sorted(names):
            raise self._mismatch(", ".join(known), ", ".join(names))

    def check(self, schema: pa.Schema) -> None:
        """The same, with the types of the columns."""
        self.check_names(schema.names)
        table = self._open()
        known = {} if table is None else _types(table.schema())
        for name, wanted in _types(DeltaSchema.from_arrow(schema)).items():
            if known.get(name, wanted) != wanted:
                raise self._mismatch(f"{name} as {known[name]}", f"it as {wanted}")

    def refuse_rows(self) -> None:
        """Raises `TableMismatch` if the table has rows: they are another job's, or another life's of this one."""
        table = self._open()
        if table is not None and table.file_uris():
            raise TableMismatch(
                f"the table {self.address} has rows already, and the checkpoint of this job is new: its results would be there twice, or "
                "mixed with those of another job. Give the job a table of its own, or the checkpoint that it had"
            )

    def has(self, query_id: str, batch_id: int) -> bool:
        """Whether this micro-batch is in the table."""
        table = self._open()
        return table is not None and has_batch(table, query_id, batch_id)

    def append(self, rows: pa.Table, query_id: str, batch_id: int) -> bool:
        """Append the rows of a micro-batch; False if the table has it already."""
        try:
            # Another run may make it in between: then it is looked at like any other table.
            table = self._open() or DeltaTable.create(self.address, DeltaSchema.from_arrow(rows.schema), mode="ignore")
            if has_batch(table, query_id, batch_id):
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

    def _mismatch(self, known: str, wanted: str) -> TableMismatch:
        return TableMismatch(f"the table {self.address} has {known}, and the results have {wanted}: give the job a table of its own")


def _types(schema: DeltaSchema) -> dict[str, str]:
    """The types of the columns as texts; whether something may be null is left out."""
    return {field["name"]: _text(_plain(field["type"])) for field in json.loads(schema.to_json())["fields"]}


def _plain(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {name: _plain(value) for name, value in kind.items() if name not in _NOT_COMPARED}
    return [_plain(one) for one in kind] if isinstance(kind, list) else kind


def _text(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)
