"""The Parquet files that one task writes for one table: one per event hour that it meets.

Rows are gathered until there are enough for a row group (a group per call of the writer would be tiny), the largest hour first. A file has
a name that no other attempt has, so what a killed attempt leaves behind does no harm until `maintain` removes it. Messages of very many
hours, as of a broken clock, get more than one file per hour instead of more open files than a process may have.

Columns that repeat themselves get a dictionary. The others are written in Parquet's delta encodings, lengths and differences apart from
what they are of: a third less work for the compressor than plain values, and a tenth less to store.

    event_date=2026-05-04/event_hour=12/part-<32 hex digits>.zstd.parquet
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millstream.arrow.kernels.compiled import Ints
from millstream.lake.columns import EVENT_DATE, EVENT_HOUR
from millstream.lake.data_file import DataFile, statistics_of
from millstream.lake.place import Place

US_PER_HOUR: Final = 3_600_000_000
END_OF_TIME_US: Final = 253_402_300_800_000_000
"""The year 10000, which no date of Python or SQL has."""
NO_HOUR: Final = -1
GATHERED_BYTES: Final = 64 * 1024 * 1024
MOST_OPEN: Final = 100
_SAMPLE: Final = 10_000
_MOST_DISTINCT: Final = 0.3
"""A column with more different values than this share of its rows is not worth a dictionary."""
_NO_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"


def hours_of(timestamps_us: Ints) -> Ints:
    """The event hour of each row, counted from 1970; `NO_HOUR` where there is no time that a date can be made of."""
    is_known = (timestamps_us >= 0) & (timestamps_us < END_OF_TIME_US)
    hours = timestamps_us // US_PER_HOUR
    return hours if is_known.all() else np.where(is_known, hours, NO_HOUR)


class Encoding(NamedTuple):
    """The columns that have a dictionary, and the encodings of others."""

    dictionary: list[str]
    others: dict[str, str]


class HourFiles:
    """The files of one table in one task. Close it, or abandon it."""

    def __init__(self, place: Place, schema: pa.Schema, *, gathered_bytes: int = GATHERED_BYTES) -> None:
        self._place = place
        self._schema = schema
        self._limit = gathered_bytes
        self._gathered: dict[int, list[pa.RecordBatch]] = {}
        self._sizes: dict[int, int] = {}
        self._open: dict[int, _OpenFile] = {}
        self._closed: list[DataFile] = []
        self._encoding: Encoding | None = None

    def write(self, rows: pa.RecordBatch, hours: Ints) -> None:
        """Take rows, each with its hour."""
        for hour, part in split_by_hour(rows, hours):
            self._gathered.setdefault(hour, []).append(part)
            self._sizes[hour] = self._sizes.get(hour, 0) + part.nbytes
        while sum(self._sizes.values()) > self._limit:
            self._flush(max(self._sizes, key=self._sizes.__getitem__))

    def close(self) -> list[DataFile]:
        """Write what is left; the files, complete."""
        for hour in list(self._sizes):
            self._flush(hour)
        while self._open:
            self._close_oldest()
        return list(self._closed)

    def abandon(self) -> None:
        """Something went wrong: delete what was written."""
        for file in self._open.values():
            file.abandon()
        self._open.clear()
        for complete in self._closed:
            self._place.delete(complete.path)
        self._closed.clear()

    def _flush(self, hour: int) -> None:
        rows = pa.Table.from_batches(self._gathered.pop(hour), schema=self._schema)
        del self._sizes[hour]
        if self._encoding is None:
            self._encoding = encoding_of(rows)
        if hour not in self._open:
            if len(self._open) >= MOST_OPEN:
                self._close_oldest()
            self._open[hour] = _OpenFile(self._place, self._schema, hour, self._encoding)
        self._open[hour].write(rows)

    def _close_oldest(self) -> None:
        hour = next(iter(self._open))
        self._closed.append(self._open[hour].close())
        del self._open[hour]


class _OpenFile:
    """One file that is being written."""

    def __init__(self, place: Place, schema: pa.Schema, hour: int, encoding: Encoding) -> None:
        self._place = place
        self._date, self._hour = partition_of(hour)
        folder = f"{EVENT_DATE}={self._date or _NO_PARTITION}/{EVENT_HOUR}={_NO_PARTITION if self._hour is None else self._hour}"
        self._path = f"{folder}/part-{uuid4().hex}.zstd.parquet"
        place.make_directory(folder)
        self._metadata: list[Any] = []
        self._stream = place.files.open_output_stream(place.child(self._path))
        self._writer = pq.ParquetWriter(
            self._stream,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=encoding.dictionary,
            column_encoding=encoding.others or None,
            metadata_collector=self._metadata,
        )

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))

    def close(self) -> DataFile:
        self._writer.close()
        self._stream.close()
        [metadata] = self._metadata
        size = self._place.files.get_file_info(self._place.child(self._path)).size
        return DataFile(self._path, size, metadata.num_rows, self._date, self._hour, statistics_of(metadata))

    def abandon(self) -> None:
        try:
            self._writer.close()
            self._stream.close()
        except (OSError, RuntimeError):
            # The disk that was full is still full, and a writer that could not be closed cannot be closed again; the file goes anyway.
            pass
        self._place.delete(self._path)


def split_by_hour(rows: pa.RecordBatch, hours: Ints) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each hour; without a copy where they come in the order of their hours."""
    if not len(hours):
        return
    if (hours == hours[0]).all():
        yield int(hours[0]), rows
        return
    if (np.diff(hours) < 0).any():
        order = np.argsort(hours, kind="stable")
        rows, hours = rows.take(pa.array(order)), hours[order]
    different, starts = np.unique(hours, return_index=True)
    ends = np.append(starts[1:], len(hours))
    for hour, start, end in zip(different.tolist(), starts.tolist(), ends.tolist(), strict=True):
        yield hour, rows.slice(start, end - start)


def partition_of(hour: int) -> tuple[str | None, int | None]:
    """The values of the partition columns."""
    if hour == NO_HOUR:
        return None, None
    moment = datetime.fromtimestamp(hour * 3600, UTC)
    return moment.date().isoformat(), moment.hour


def encoding_of(rows: pa.Table) -> Encoding:
    """How the columns are written, by a look at their first rows."""
    dictionary = worth_a_dictionary(rows)
    others = {field.name: _delta_encoding(field.type) for field in rows.schema if field.name not in dictionary}
    return Encoding(dictionary, {name: encoding for name, encoding in others.items() if encoding is not None})


def _delta_encoding(kind: pa.DataType) -> str | None:
    types = pa.types
    if types.is_string(kind) or types.is_binary(kind):
        return "DELTA_LENGTH_BYTE_ARRAY"
    is_whole = types.is_integer(kind) or types.is_date32(kind) or types.is_time(kind) or types.is_timestamp(kind)
    return "DELTA_BINARY_PACKED" if is_whole else None


def worth_a_dictionary(rows: pa.Table) -> list[str]:
    """The columns that repeat themselves, by a look at their first rows, as Parquet names them; those inside of others always."""
    chosen: list[str] = []
    for field in rows.schema:
        if pa.types.is_nested(field.type):
            chosen += _leaves(field.name, field.type)
            continue
        sample = rows.column(field.name).slice(0, _SAMPLE)
        if pc.count_distinct(sample).as_py() <= max(len(sample) * _MOST_DISTINCT, 1):
            chosen.append(field.name)
    return chosen


def _leaves(path: str, kind: pa.DataType) -> list[str]:
    types = pa.types
    if types.is_struct(kind):
        return [leaf for field in kind for leaf in _leaves(f"{path}.{field.name}", field.type)]
    if types.is_map(kind):
        return [f"{path}.key_value.key", *_leaves(f"{path}.key_value.value", kind.item_type)]
    if types.is_list(kind):
        return _leaves(f"{path}.list.element", kind.value_type)
    return [path]
