import json
import os
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.lake.hour_files import (
    MOST_OPEN,
    NO_HOUR,
    HourFiles,
    encoding_of,
    hours_of,
    partition_of,
    split_by_hour,
    worth_a_dictionary,
)
from millstream.lake.place import open_place

HOUR_US = 3_600_000_000
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("x", pa.float64())])


def batch(numbers: list[int]) -> pa.RecordBatch:
    columns = [numbers, [f"text {number}" for number in numbers], [number * HOUR_US for number in numbers], [0.5] * len(numbers)]
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def test_hours_count_from_1970_and_nonsense_has_none() -> None:
    times = np.array([0, HOUR_US - 1, HOUR_US, -1_000, 2**62], np.int64)
    assert hours_of(times).tolist() == [0, 0, 1, NO_HOUR, NO_HOUR]
    assert partition_of(25) == ("1970-01-02", 1)
    assert partition_of(NO_HOUR) == (None, None)


@pytest.mark.parametrize("hours", [[1, 1, 1], [1, 1, 2], [2, 1, 2, NO_HOUR, 1]])
def test_rows_are_split_by_hour_in_their_order(hours: list[int]) -> None:
    found = {hour: part["n"].to_pylist() for hour, part in split_by_hour(batch(list(range(len(hours)))), np.array(hours))}
    assert found == {hour: [row for row, other in enumerate(hours) if other == hour] for hour in set(hours)}


def test_files_have_the_rows_and_say_what_is_in_them(tmp_path: Path) -> None:
    files = HourFiles(open_place(str(tmp_path / "table")), SCHEMA, gathered_bytes=200)
    for start in range(0, 12, 4):
        files.write(batch(list(range(start, start + 4))), np.array([5, 5, 6, NO_HOUR]))
    written = sorted(files.close(), key=lambda file: str(file.event_hour))
    assert [(file.event_date, file.event_hour, file.rows) for file in written] == [
        ("1970-01-01", 5, 6),
        ("1970-01-01", 6, 3),
        (None, None, 3),
    ]
    whole = pq.read_table(tmp_path / "table" / written[0].path, partitioning=None)
    assert sorted(whole["n"].to_pylist()) == [0, 1, 4, 5, 8, 9]
    assert written[0].size_bytes == (tmp_path / "table" / written[0].path).stat().st_size
    statistics = json.loads(written[0].statistics)
    at = [datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z") for hour in (0, 9)]
    assert statistics == {
        "numRecords": 6,
        "minValues": {"n": 0, "text": "text 0", "at": at[0]},
        "maxValues": {"n": 9, "text": "text 9", "at": at[1]},
        "nullCount": {"n": 0, "text": 0, "at": 0, "x": 0},
    }


def test_statistics_of_ancient_times_have_four_digits_of_the_year(tmp_path: Path) -> None:
    """Readers compare them as texts or as times, and pass over the file if the year has three."""
    schema = pa.schema([("at", pa.timestamp("us", tz="UTC")), ("local", pa.timestamp("us"))])
    ancient = datetime(400, 9, 26, tzinfo=UTC)
    files = HourFiles(open_place(str(tmp_path)), schema)
    files.write(
        pa.RecordBatch.from_arrays([pa.array([ancient], schema.types[0]), pa.array([None], schema.types[1])], schema=schema), np.array([5])
    )
    [written] = files.close()
    assert json.loads(written.statistics)["minValues"] == {"at": "0400-09-26T00:00:00.000000Z"}


def test_what_is_abandoned_is_gone(tmp_path: Path) -> None:
    files = HourFiles(open_place(str(tmp_path)), SCHEMA, gathered_bytes=1)
    files.write(batch([1, 2]), np.array([5, 6]))
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    files.abandon()
    assert list(tmp_path.rglob("*.parquet")) == []


def test_only_columns_that_repeat_themselves_get_a_dictionary() -> None:
    rows = pa.table(
        {
            "same": ["a"] * 100,
            "unique": [str(number) for number in range(100)],
            "list": [["a"]] * 100,
            "map": pa.array([[("k", 1)]] * 100, pa.map_(pa.string(), pa.int64())),
        }
    )
    assert worth_a_dictionary(rows) == ["same", "list.list.element", "map.key_value.key", "map.key_value.value"]


def test_messages_of_very_many_hours_do_not_open_as_many_files(tmp_path: Path) -> None:
    files = HourFiles(open_place(str(tmp_path)), SCHEMA, gathered_bytes=0)
    hours = list(range(MOST_OPEN + 50))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        files.write(batch(hours), np.array(hours))
        assert len(os.listdir("/proc/self/fd")) <= before + MOST_OPEN
    found = files.close()
    assert sum(file.rows for file in found) == 2 * len(hours)
    assert len({file.path for file in found}) == len(found) == len(list(tmp_path.rglob("*.parquet")))
    files.abandon()
    assert list(tmp_path.rglob("*.parquet")) == []


def test_other_columns_are_written_as_differences_and_come_back_as_they_were(tmp_path: Path) -> None:
    numbers = range(1000)
    moments = pa.array([number * 10**9 for number in numbers], pa.int64())
    rows = pa.table(
        {
            "text": [None if number % 7 == 0 else f"{number:x}" * (number % 5) for number in numbers],
            "bytes": [b"%d" % number for number in numbers],
            "long": [(-1) ** number * number**6 for number in numbers],
            "int": pa.array(numbers, pa.int32()),
            "at": moments.cast(pa.timestamp("us", "UTC")),
            "day": pa.array(numbers, pa.int32()).cast(pa.date32()),
            "price": [Decimal(number) for number in numbers],
            "share": [number / 7 for number in numbers],
            "same": [None] * 1000,
            "inner": pa.array([{"id": number} for number in numbers], pa.struct([("id", pa.int64())])),
        }
    ).cast(
        pa.schema(
            {
                "text": pa.string(),
                "bytes": pa.binary(),
                "long": pa.int64(),
                "int": pa.int32(),
                "at": pa.timestamp("us", "UTC"),
                "day": pa.date32(),
                "price": pa.decimal128(20, 2),
                "share": pa.float64(),
                "same": pa.string(),
                "inner": pa.struct([("id", pa.int64())]),
            }
        )
    )
    texts, whole = dict.fromkeys(("text", "bytes"), "DELTA_LENGTH_BYTE_ARRAY"), ("long", "int", "at", "day")
    assert encoding_of(rows) == (["same", "inner.id"], {**texts, **dict.fromkeys(whole, "DELTA_BINARY_PACKED")})
    files = HourFiles(open_place(str(tmp_path)), rows.schema)
    [whole_batch] = rows.combine_chunks().to_batches()
    files.write(whole_batch, np.zeros(1000, np.int64))
    [file] = files.close()
    written = str(tmp_path / file.path)
    assert pq.read_table(written, partitioning=None).equals(rows)
    assert pl.read_parquet(written).equals(pl.DataFrame(rows))
    columns = 'sum(long)::bigint, max(text), sum("inner".id)::bigint, count("at"), count(day), sum(octet_length(bytes))'
    found = duckdb.connect().execute(f"select {columns} from '{written}'").fetchone()
    texts_written, sizes = [text for text in rows["text"].to_pylist() if text], [len(str(number)) for number in numbers]
    assert found == (sum(rows["long"].to_pylist()), max(texts_written), sum(numbers), 1000, 1000, sum(sizes))
