"""What a load asks of a table, of whichever kind: `DeltaWriter` and `IcebergWriter` are such."""

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from millstream.lake.load_batch import LoadBatch


class LoadTable(Protocol):
    """One table, at its address; nothing is kept open between two calls."""

    address: str

    def check(self, files: pa.Schema) -> None:
        """Raises `TableMismatch` if there is a table, or anything else, that files of these columns cannot go into."""

    def positions(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """The offset that comes next in those of the partitions that the table has rows of."""

    def commit(self, batch: LoadBatch, files: pa.Schema) -> bool:
        """Add the micro-batch to the table; False if the table has it already."""

    def batches(self, query_id: str, *, after: int) -> list[LoadBatch]:
        """The micro-batches of a query after this one that the history of the table still has, oldest first."""
