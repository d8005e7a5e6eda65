from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, NullType, StringType, StructField, StructType, TimestampType

from millstream.errors import UsageError
from millstream.lake.columns import TIMESTAMP
from millstream.lake.errors import BadColumns, LakeFull
from millstream.spark.jobs.load.result_rows import result_columns, write_result_files
from millstream.spark.jobs.load.settings import LoadSettings

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def columns(**fields: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def test_whole_numbers_of_a_query_are_long_but_for_the_partition() -> None:
    found = result_columns(columns(n=IntegerType(), kafka_partition=IntegerType(), kafka_timestamp=TimestampType()), None)
    assert found == pa.schema([("n", pa.int64()), ("kafka_partition", pa.int32()), ("kafka_timestamp", TIMESTAMP)])


@pytest.mark.parametrize(
    ("fields", "event_time", "problem"),
    [
        ({"n": IntegerType()}, None, "the result has no column kafka_timestamp"),
        ({"kafka_timestamp": LongType()}, None, "the result has no column kafka_timestamp"),
        ({"n": StringType()}, "at", "event-time at: the result of the query has no field at"),
        ({"n": StringType()}, "n", "in the result of the query it is string"),
        ({"n": NullType(), "kafka_timestamp": TimestampType()}, None, "the column n would be of type null"),
        ({"event_hour": LongType(), "kafka_timestamp": TimestampType()}, None, "two columns event_hour"),
    ],
)
def test_what_cannot_be_a_table_is_said(fields: dict[str, Any], event_time: str | None, problem: str) -> None:
    with pytest.raises((UsageError, BadColumns), match=problem):
        result_columns(columns(**fields), event_time)


def test_rows_go_to_files_of_their_hours(tmp_path: Path) -> None:
    settings = LoadSettings(
        brokers="b:1", topics=("clicks",), to=str(tmp_path), checkpoint="here", sql="SELECT * FROM messages", event_time="at"
    )
    schema = result_columns(columns(name=BinaryType(), at=IntegerType()), "at")
    hour_ms = 3_600_000
    batches = [
        pa.record_batch({"name": [b"a", b"b"], "at": pa.array([0, hour_ms], pa.int32())}),
        pa.record_batch({"name": [b"c"], "at": pa.array([None], pa.int32())}),
        pa.record_batch({"name": pa.array([], pa.binary()), "at": pa.array([], pa.int32())}),
    ]
    files = write_result_files(settings, schema, iter(batches))
    assert sorted((file.event_hour is None, file.event_hour or 0, file.rows) for file in files) == [
        (False, 0, 1),
        (False, 1, 1),
        (True, 0, 1),
    ]
    found = [row for file in files for row in pq.read_table(tmp_path / "clicks" / file.path, partitioning=None).to_pylist()]
    assert sorted((row["name"], row["event_timestamp"]) for row in found if row["event_timestamp"]) == [
        (b"a", datetime(1970, 1, 1, tzinfo=UTC)), (b"b", datetime(1970, 1, 1, 1, tzinfo=UTC))
    ]  # fmt: skip


def test_what_could_not_be_finished_is_deleted(tmp_path: Path) -> None:
    settings = LoadSettings(brokers="b:1", topics=("clicks",), to=str(tmp_path), checkpoint="here", sql="SELECT * FROM messages")
    schema = result_columns(columns(kafka_timestamp=TimestampType()), None)

    def broken() -> Any:
        yield pa.record_batch({"kafka_timestamp": pa.array([NOON], TIMESTAMP)})
        raise OSError(28, "No space left on device")

    with pytest.raises(LakeFull, match=r"there is no room for the files of .*No space left on device"):
        write_result_files(settings, schema, broken())
    assert list(tmp_path.rglob("*.parquet")) == []
