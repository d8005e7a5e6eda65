"""The tables of the lake, read back: the rows of each topic, and how long messages were under way."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from demo.events import CLICKS, PAGE_VIEWS, SEARCHES, UNKNOWN_DEVICE, Click, PageView, Search
from demo.expectation import LakeRow
from millstream.lake.load_batch import read_metadata

_FIELDS = {PAGE_VIEWS: PageView._fields, CLICKS: Click._fields, SEARCHES: Search._fields}


class Lake:
    """The directory of the tables."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def count(self) -> int:
        """How many rows the tables of the topics have now."""
        return sum(self._table(topic).count() for topic in _FIELDS if self._is_there(topic))

    def rows(self, topic: str) -> Counter[LakeRow]:
        """The rows of a topic's table, as fields of events, and how often each is there.

        A view of the first version has the default as its device if it was loaded after the second one was registered, and null if it was
        loaded before, when its table had no such column: that is the same here.
        """
        table = self.read(topic)
        return Counter(zip(*(_values(table, name) for name in _FIELDS[topic]), strict=True))

    def read(self, name: str) -> pa.Table:
        """A whole table."""
        table: pa.Table = self._table(name).to_pyarrow_table()
        return table

    def delays_ms(self, *, since_ms: int) -> "np.typing.NDArray[np.int64]":
        """For each message of the site that was sent from then on: from when it was sent to the commit that made it a row."""
        return np.concatenate([self._delays_ms(topic, since_ms) for topic in _FIELDS])

    def _delays_ms(self, topic: str, since_ms: int) -> "np.typing.NDArray[np.int64]":
        table = self.read(topic)
        partitions, offsets = (table[name].to_numpy() for name in ("kafka_partition", "kafka_offset"))
        sent = np.array(_milliseconds(table["sent_at"]), dtype=np.int64)
        committed = np.zeros(len(sent), dtype=np.int64)
        for commit in self._table(topic).history():
            batch = read_metadata(commit)
            for partition, start, end in batch.ranges if batch is not None else ():
                committed[(partitions == partition) & (offsets >= start) & (offsets < end)] = commit["timestamp"]
        return (committed - sent)[sent >= since_ms]

    def _is_there(self, name: str) -> bool:
        return DeltaTable.is_deltatable(str(self._directory / name))

    def _table(self, name: str) -> DeltaTable:
        return DeltaTable(str(self._directory / name))


def _values(table: pa.Table, name: str) -> list[Any]:
    column = table[name]
    if name == "at":
        return _milliseconds(column)
    found: list[Any] = (pc.fill_null(column, UNKNOWN_DEVICE) if name == "device" else column).to_pylist()
    return found


def _milliseconds(column: Any) -> list[int]:
    found: list[int] = pc.cast(pc.cast(column, pa.timestamp("ms", tz="UTC")), pa.int64()).to_pylist()
    return found
