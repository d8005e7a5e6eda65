"""A Delta table that loads write to: made, widened, and committed to exactly once, by what deltalake checks and what it does not.

A micro-batch is committed if the table stands exactly where it begins. deltalake refuses a commit whose application transactions another
writer has moved since the table was opened, and nothing else, so here is checked first, on the same handle:
- a micro-batch that the table has already (a driver died between this commit and Spark's) is left out;
- one that does not continue the table is refused (`continuity`);
- new columns are added before the files that have them; a column of another type is refused. Files are never looked into by Delta.
"""

from collections.abc import Sequence
from time import time
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from millstream.lake.columns import EVENT_DATE, EVENT_HOUR, PARTITION_BY, table_schema
from millstream.lake.continuity import check_continues, check_repeats, is_same
from millstream.lake.data_file import DataFile
from millstream.lake.errors import LoadConflict, TableMismatch
from millstream.lake.load_batch import TOPIC_KEY, LoadBatch, batches_after, offset_key
from millstream.lake.place import normal_address
from millstream.lake.table_opening import find_table, has_batch, query_key

_CONSTRAINT: Final = "delta.constraints."


class DeltaWriter:
    """One table, at its address; nothing is kept open between two calls."""

    def __init__(self, address: str) -> None:
        self.address = normal_address(address)

    def check(self, files: pa.Schema) -> None:
        """Raises `TableMismatch` if there is a table, or anything else, that files of these columns cannot go into."""
        table = self._open()
        if table is not None:
            self._missing_columns(table, table_schema(files))

    def positions(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """The offset that comes next in those of the partitions that the table has rows of."""
        table = self._open()
        found = {} if table is None else {one: table.transaction_version(offset_key(topic, one)) for one in partitions}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def commit(self, batch: LoadBatch, files: pa.Schema) -> bool:
        """Add the micro-batch to the table; False if the table has it already."""
        try:
            table = self._prepared(batch, files)
            if table is None:
                return False
            table.create_write_transaction(
                [_action(file) for file in batch.files],
                "append",
                DeltaSchema.from_arrow(table_schema(files)),
                list(PARTITION_BY),
                commit_properties=CommitProperties(custom_metadata=batch.metadata(), app_transactions=self._transactions(batch)),
            )
        except CommitFailedError as error:
            raise LoadConflict(
                f"the table {self.address} was written to by another load at the same moment: let one load at a time write to it, and "
                f"start this one again. ({error})"
            ) from None
        except DeltaError as error:
            raise TableMismatch(f"the table {self.address} did not take micro-batch {batch.batch_id}: {error}") from None
        return True

    def batches(self, query_id: str, *, after: int) -> list[LoadBatch]:
        """The micro-batches of a query after this one that the log of the table still has, oldest first."""
        table = self._open()
        return batches_after(table.history() if table is not None else (), query_id, after)

    def _prepared(self, batch: LoadBatch, files: pa.Schema) -> DeltaTable | None:
        """The table, with all columns, standing where the micro-batch begins; None if it has the micro-batch."""
        wanted = table_schema(files)
        table = self._open()
        if table is None:
            # Another load may have made it by now: then it is looked at like any other table.
            table = DeltaTable.create(self.address, DeltaSchema.from_arrow(wanted), mode="ignore", partition_by=list(PARTITION_BY))
        found = {one.partition: table.transaction_version(offset_key(batch.topic, one.partition)) for one in batch.ranges}
        positions = {partition: offset for partition, offset in found.items() if offset is not None}
        if has_batch(table, batch.query_id, batch.batch_id):
            check_repeats(batch, self.address, positions=positions)
            return None
        check_continues(
            batch,
            self.address,
            positions=positions,
            is_same_topic=is_same(batch.topic_number, table.transaction_version(TOPIC_KEY)),
        )
        missing = self._missing_columns(table, wanted)
        if missing:
            table.alter.add_columns(DeltaSchema.from_arrow(pa.schema(missing)).fields)
            # A new handle, which may have seen another load: everything is checked again on it.
            return self._prepared(batch, files)
        return table

    def _open(self) -> DeltaTable | None:
        return find_table(self.address, is_leftover=_is_leftover, advice="load to another place (--to), or move it away.")

    def _missing_columns(self, table: DeltaTable, wanted: pa.Schema) -> list[pa.Field]:
        """The columns that the table has to get."""
        partitioned = tuple(table.metadata().partition_columns)
        if partitioned != PARTITION_BY:
            raise TableMismatch(
                f"the table {self.address} is partitioned by {', '.join(partitioned) or 'nothing'}, and a load writes files by "
                f"{', '.join(PARTITION_BY)}: load to another place (--to)."
            )
        present: pa.Schema = pa.schema(table.schema().to_arrow())
        self._check_demands(table, present)
        spelt = {name.lower(): name for name in present.names}
        missing = []
        for field in wanted:
            index = present.get_field_index(field.name)
            if index < 0 and field.name.lower() in spelt:
                raise TableMismatch(
                    f"the table {self.address} has a column {spelt[field.name.lower()]}, and the messages have {field.name}: names are "
                    "compared without case. Load to another place (--to)."
                )
            if index < 0:
                missing.append(field)
            elif (added := self._added(present.field(index).type, field.type, field.name)) is not None:
                missing.append(pa.field(field.name, added))
        return missing

    def _check_demands(self, table: DeltaTable, present: pa.Schema) -> None:
        """What others demand of rows, and nobody checks: Delta does not look into files."""
        required = [field.name for field in present if not field.nullable]
        if required:
            raise TableMismatch(f"the table {self.address} wants a value in {', '.join(required)}, and messages may have none there.")
        constraints = [name.removeprefix(_CONSTRAINT) for name in table.metadata().configuration if name.startswith(_CONSTRAINT)]
        if constraints:
            raise TableMismatch(
                f"the table {self.address} has constraints ({', '.join(constraints)}), which a load does not check: drop them, or load to "
                "another place (--to)."
            )

    def _added(self, present: pa.DataType, wanted: pa.DataType, column: str) -> pa.DataType | None:
        """The type of a column with the fields that it has to get; None if it has all of them."""
        types = pa.types
        if types.is_struct(present) and types.is_struct(wanted):
            fields = {field.name: field for field in present}
            is_new = False
            for field in wanted:
                known = fields.get(field.name)
                added = field.type if known is None else self._added(known.type, field.type, f"{column}.{field.name}")
                if added is not None:
                    fields[field.name] = pa.field(field.name, added)
                    is_new = True
            return pa.struct(list(fields.values())) if is_new else None
        if types.is_list(present) and types.is_list(wanted):
            added = self._added(present.value_type, wanted.value_type, column)
            return None if added is None else pa.list_(added)
        # Of the records of a map, too, Delta would take it; but deltalake could not put the files together any more.
        if not _is_same(present, wanted):
            raise TableMismatch(
                f"the column {column} of the table {self.address} is {present}, and the messages now have {wanted} there. A table cannot "
                "change the type of a column, and records in a map get no field: load to another place (--to) with a new checkpoint, or "
                "bring the schema back."
            )
        return None

    def _transactions(self, batch: LoadBatch) -> list[Transaction]:
        ours = [Transaction(query_key(batch.query_id), batch.batch_id)]
        ours += [Transaction(offset_key(batch.topic, partition), end) for partition, _, end in batch.ranges]
        return ours if batch.topic_number is None else [*ours, Transaction(TOPIC_KEY, batch.topic_number)]


def _action(file: DataFile) -> AddAction:
    hour = None if file.event_hour is None else str(file.event_hour)
    values = {EVENT_DATE: file.event_date, EVENT_HOUR: hour}
    return AddAction(file.path, file.size_bytes, values, int(time() * 1000), data_change=True, stats=file.statistics)


def _is_same(present: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the types are one to a reader, who finds the fields of a record by name and does not care how items of lists are called."""
    types = pa.types
    if types.is_list(present) and types.is_list(wanted):
        return _is_same(present.value_type, wanted.value_type)
    if types.is_map(present) and types.is_map(wanted):
        return _is_same(present.key_type, wanted.key_type) and _is_same(present.item_type, wanted.item_type)
    if types.is_struct(present) and types.is_struct(wanted):
        names = {field.name for field in wanted}
        return {field.name for field in present} == names and all(_is_same(present.field(n).type, wanted.field(n).type) for n in names)
    return bool(present == wanted)


def _is_leftover(name: str) -> bool:
    """Whether a killed attempt wrote this before the table was made: it has only data files."""
    return name.startswith(f"{EVENT_DATE}=")
