"""The tables of a load: where they are, of which kind, and how far they are."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from millstream.lake.data_file import DataFile
from millstream.lake.delta_table import DeltaWriter
from millstream.lake.errors import LoadConflict
from millstream.lake.load_batch import LoadBatch
from millstream.lake.load_table import LoadTable
from millstream.lake.place import open_place
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from millstream.spark.jobs.load.table_plan import TablePlan


def table_address(to: str, table: str) -> str:
    """Where a table of a load is."""
    return f"{to.rstrip('/')}/{table}"


def load_table(settings: LoadSettings, table: str) -> LoadTable:
    """The table of this name."""
    if settings.table == "iceberg":
        from millstream.lake.iceberg_table import IcebergWriter  # of an extra that only its users have

        return IcebergWriter(settings.to, table, catalog=settings.catalog)
    return DeltaWriter(table_address(settings.to, table))


def commit_once(table: LoadTable, batch: LoadBatch, columns: "pa.Schema") -> None:
    """Commit a micro-batch; the files of one that the table has already are deleted."""
    if not table.commit(batch, columns):
        delete_files(table.address, batch.files)


def delete_files(address: str, files: Iterable[DataFile]) -> None:
    """Delete files of a table that are in no commit."""
    place = open_place(address)
    for file in files:
        place.delete(file.path)


def positions_in_tables(
    settings: LoadSettings, plans: "Iterable[TablePlan]", places: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """The offsets that come next, in partitions that the tables have rows of. Tables of one topic have to agree."""
    found: dict[TopicPartition, int] = {}
    for plan in plans:
        partitions = [place.partition for place in places if place.topic == plan.topic]
        for partition, offset in load_table(settings, plan.table).positions(plan.topic, partitions).items():
            place = TopicPartition(plan.topic, partition)
            if found.setdefault(place, offset) != offset:
                raise LoadConflict(
                    f"the tables of {plan.topic} in {settings.to} end at different offsets of {place} ({found[place]} and {offset}): the "
                    "last micro-batch of their load was interrupted. Start it again with the checkpoint that it had."
                )
    return found
