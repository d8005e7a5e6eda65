"""An Iceberg table that loads write to: made, widened, and committed to exactly once.

Where the table stands is among its properties, which outlive snapshots, and is changed by the commit that adds the files:

    millstream.query.<id of the query>              number of the micro-batch
    millstream.offset.<topic>.<partition>           the offset that comes next
    millstream.topic                                the id of the topic; rows are of this topic alone

What the micro-batch was stands in the summary of its snapshot (`load_batch`). A commit holds only if the snapshot is still the one that was
looked at. pyiceberg would try again on top of whatever came meanwhile, and a driver that was given up would load twice: so that is off
(`commit.retry.num-retries`), and trying again is done here, with every check done again.

Files are added as tasks wrote them; Iceberg takes their partition from their statistics, so a file has rows of one hour. Its columns are
found by name (`schema.name-mapping.default`), because files of ours have no field ids.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    ValidationError,
    ValidationException,
)
from pyiceberg.transforms import HourTransform
from sqlalchemy.exc import SQLAlchemyError

from millstream.errors import CommandFailed
from millstream.lake.columns import EVENT_HOUR, EVENT_TIMESTAMP, KAFKA_TIMESTAMP
from millstream.lake.continuity import check_continues, check_repeats, is_same
from millstream.lake.errors import LoadConflict, TableMismatch
from millstream.lake.iceberg_catalog import namespace_of, open_catalog
from millstream.lake.load_batch import LoadBatch, batches_after
from millstream.lake.place import normal_address, open_place

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction

_NO_RETRIES: Final = {"commit.retry.num-retries": "0"}
_PROPERTIES: Final = {
    **_NO_RETRIES,
    "format-version": "2",
    # Every commit writes the list of all snapshots anew: without these, all of them stay.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
_ATTEMPTS: Final = 5
_TOPIC_KEY: Final = "millstream.topic"


class IcebergWriter:
    """One table; nothing is kept open between two calls."""

    def __init__(self, to: str, table: str, *, catalog: Mapping[str, str]) -> None:
        self.address = normal_address(f"{to.rstrip('/')}/{table}")
        self._to = to
        self._catalog = catalog
        self._name = (namespace_of(catalog), table)

    def check(self, files: pa.Schema) -> None:
        """Raises `TableMismatch` if there is a table, or anything else, that files of these columns cannot go into."""
        table = self._open()
        if table is not None:
            self._check_partitions(table, files)
            # What is done to a transaction that is not committed is done to nothing.
            self._add_columns(table.transaction(), files)
        elif open_place(self.address).exists("_delta_log"):
            raise TableMismatch(f"{self.address} is a Delta table: load to another place (--to), or into Delta tables.")

    def positions(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """The offset that comes next in those of the partitions that the table has rows of."""
        table = self._open()
        return {} if table is None else _positions(table, topic, partitions)

    def commit(self, batch: LoadBatch, files: pa.Schema) -> bool:
        """Add the micro-batch to the table; False if the table has it already."""
        for _ in range(_ATTEMPTS):
            try:
                return self._try_to_commit(batch, files)
            except (CommitFailedException, TableAlreadyExistsError) as error:
                # Maintenance, or another load: which of them shows when the table is looked at again.
                failed = error
            except (ValidationError, ValidationException, ValueError) as error:
                raise TableMismatch(f"the table {self.address} did not take micro-batch {batch.batch_id}: {error}") from None
            except (RESTError, SQLAlchemyError, OSError) as error:
                raise CommandFailed(
                    f"the table {self.address} could not be committed to: {error}. Whether micro-batch {batch.batch_id} is in it, the next "
                    "run finds out: start the load again."
                ) from None
        raise LoadConflict(
            f"the table {self.address} was written to by others each time that micro-batch {batch.batch_id} was to be committed: let one "
            f"load at a time write to it, and start this one again. ({failed})"
        )

    def batches(self, query_id: str, *, after: int) -> list[LoadBatch]:
        """The micro-batches of a query after this one whose snapshots the table still has, oldest first."""
        table = self._open()
        newest_first = reversed(table.snapshots() if table is not None else [])
        summaries = (snapshot.summary.additional_properties for snapshot in newest_first if snapshot.summary is not None)
        return batches_after(summaries, query_id, after)

    def _try_to_commit(self, batch: LoadBatch, files: pa.Schema) -> bool:
        table = self._open() or self._create(files)
        positions = _positions(table, batch.topic, [one.partition for one in batch.ranges])
        known = table.properties.get(_query_key(batch.query_id))
        if known is not None and int(known) >= batch.batch_id:
            check_repeats(batch, self.address, positions=positions)
            return False
        check_continues(
            batch,
            self.address,
            positions=positions,
            is_same_topic=is_same(batch.topic_id, table.properties.get(_TOPIC_KEY)),
        )
        self._check_partitions(table, files)
        with table.transaction() as transaction:
            self._add_columns(transaction, files)
            transaction.set_properties(_state(batch))
            if batch.files:
                paths = [f"{self.address}/{file.path}" for file in batch.files]
                transaction.add_files(paths, snapshot_properties=batch.metadata(), check_duplicate_files=False)
            else:
                # A snapshot all the same: it is what two writers compare.
                with transaction.update_snapshot(snapshot_properties=batch.metadata()).fast_append():
                    pass
        return True

    def _open(self) -> "Table | None":
        catalog = open_catalog(self._to, self._catalog)
        try:
            table = catalog.load_table(self._name)
        except NoSuchTableError:
            return None
        except (RESTError, SQLAlchemyError, OSError) as error:
            raise CommandFailed(f"the table {self.address} cannot be opened: {error}") from None
        if table.properties.get("commit.retry.num-retries") != "0":
            with table.transaction() as transaction:
                transaction.set_properties(_NO_RETRIES)
            return catalog.load_table(self._name)
        return table

    def _create(self, files: pa.Schema) -> "Table":
        catalog = open_catalog(self._to, self._catalog)
        with (
            catalog.create_table_transaction(self._name, schema=files, location=self.address, properties=_PROPERTIES) as transaction,
            transaction.update_spec() as spec,
        ):
            spec.add_field(_time_column(files), HourTransform(), EVENT_HOUR)
        return catalog.load_table(self._name)

    def _check_partitions(self, table: "Table", files: pa.Schema) -> None:
        columns = table.schema()
        present = [(columns.find_column_name(field.source_id), str(field.transform)) for field in table.spec().fields]
        if present != [(_time_column(files), "hour")]:
            text = ", ".join(f"{transform}({name})" for name, transform in present) or "nothing"
            raise TableMismatch(
                f"the table {self.address} is partitioned by {text}, and a load writes files by hour({_time_column(files)}): load to "
                "another place (--to)."
            )
        required = [field.name for field in columns.fields if field.required]
        if required:
            raise TableMismatch(f"the table {self.address} wants a value in {', '.join(required)}, and messages may have none there.")

    def _add_columns(self, transaction: "Transaction", files: pa.Schema) -> None:
        """New columns, and wider ones; `TableMismatch` for others."""
        try:
            with transaction.update_schema() as update:
                update.union_by_name(files)
        except (ValidationError, ValueError) as error:
            raise TableMismatch(
                f"the table {self.address} has another type in a column than the messages now have: {error}. Load to another place (--to) "
                "with a new checkpoint, or bring the schema back."
            ) from None


def _time_column(files: pa.Schema) -> str:
    """The column whose hour partitions the table."""
    return EVENT_TIMESTAMP if EVENT_TIMESTAMP in files.names else KAFKA_TIMESTAMP


def _positions(table: "Table", topic: str, partitions: Sequence[int]) -> dict[int, int]:
    found = {partition: table.properties.get(_offset_key(topic, partition)) for partition in partitions}
    return {partition: int(offset) for partition, offset in found.items() if offset is not None}


def _state(batch: LoadBatch) -> dict[str, str]:
    """Where the table stands after the micro-batch, as properties of it."""
    state = {_query_key(batch.query_id): str(batch.batch_id)}
    state |= {_offset_key(batch.topic, partition): str(end) for partition, _, end in batch.ranges}
    return state if batch.topic_id is None else state | {_TOPIC_KEY: batch.topic_id}


def _query_key(query_id: str) -> str:
    return f"millstream.query.{query_id}"


def _offset_key(topic: str, partition: int) -> str:
    return f"millstream.offset.{topic}.{partition}"
