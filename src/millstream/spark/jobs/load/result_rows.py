"""What a query makes of messages, as rows of a table: which columns it has, and the files that a task writes of them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from millstream.errors import UsageError
from millstream.lake.columns import EVENT_TIMESTAMP, KAFKA_TIMESTAMP, TIMESTAMP, result_schema
from millstream.lake.data_file import DataFile
from millstream.lake.event_time import check_event_time, event_times_us, time_column
from millstream.lake.hour_files import HourFiles, hours_of
from millstream.lake.place import finished_or_deleted, open_place
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.load.tables import table_address

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def result_columns(schema: "StructType", event_time: str | None) -> pa.Schema:
    """The columns of the files; `UsageError` if there is none that says to which hour a row belongs."""
    from pyspark.sql.pandas.types import to_arrow_schema

    columns = result_schema(to_arrow_schema(schema, timezone="UTC"), with_event_time=event_time is not None)
    if event_time is not None:
        check_event_time(columns, event_time, where="the result of the query")
    elif KAFKA_TIMESTAMP not in columns.names or columns.field(KAFKA_TIMESTAMP).type != TIMESTAMP:
        raise UsageError(
            f"sql: the result has no column {KAFKA_TIMESTAMP}, by which the table is partitioned: select it, or name another column with "
            "event-time."
        )
    return columns


def write_result_files(settings: LoadSettings, columns: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[DataFile, ...]:
    """Write the rows of a task, by hour; what could not be finished is deleted."""
    files = HourFiles(open_place(table_address(settings.to, settings.topics[0])), columns)
    time = settings.event_time or KAFKA_TIMESTAMP
    given = pa.schema([field for field in columns if field.name != EVENT_TIMESTAMP or settings.event_time is None])
    with finished_or_deleted(files.abandon, settings.to):
        for batch in batches:
            rows = batch.select(given.names).cast(given)
            times = event_times_us(rows, time)
            if settings.event_time is not None:
                rows = pa.RecordBatch.from_arrays([*rows.columns, time_column(times)], schema=columns)
            if rows.num_rows:
                files.write(rows, hours_of(times))
        return tuple(files.close())
