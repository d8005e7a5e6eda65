"""`format("millstream-dead-letters")`: a topic as a stream whose malformed messages also go to a topic of dead letters.

The task that meets them produces them, before its rows are processed: whatever becomes of the micro-batch, none is lost, and one that runs
again produces them again: at least once, each known by its place. The rows are those of `format("millstream")` with mode = PERMISSIVE, so
that malformed ones can be counted.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from millstream.spark.data_source import MillstreamDataSource
from millstream.spark.source.reader import StreamReader

if TYPE_CHECKING:
    import pyarrow as pa

    from millstream.arrow.field_decoding import TypedColumn

FORMAT: Final = "millstream-dead-letters"
TOPIC: Final = "deadletters"
"""The option with the name of the topic for dead letters; Spark passes the names of options in lower case."""
CORRUPT: Final = "corrupt_value"


class DeadLetterSource(MillstreamDataSource):
    """Reads one topic; registered by `events.read_events`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__({name: value for name, value in options.items() if name.lower() != TOPIC})
        self._written = {name: value for name, value in options.items() if name.lower().startswith("kafka.")} | {"topic": options[TOPIC]}

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 -- Spark's name
        """The reader of the topic, which also writes."""
        reader = super().streamReader(schema)
        assert isinstance(reader, StreamReader)
        return DeadLetterReader(reader, self._written)


class DeadLetterReader(StreamReader):
    """Reads as `like` does; `written` are the options of the write."""

    def __init__(self, like: StreamReader, written: dict[str, str]) -> None:
        super().__init__(like._options, like._plan, like._schema)
        self._written = written

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of a task."""
        for rows in super().read(partition):
            if rows[CORRUPT].null_count < rows.num_rows:
                self._produce(rows.filter(rows[CORRUPT].is_valid()))
            yield rows

    def _produce(self, rows: "pa.RecordBatch") -> None:
        import pyarrow as pa  # the planning process never gets here
        import pyarrow.compute as pc

        from millstream.spark.jobs.load.dead_letters import LETTERS, as_messages, plan_letters
        from millstream.spark.sink.task_writer import write_rows

        [topic] = self._options.selection.names() or ()
        typed = self._read_again(rows)
        columns = {
            "topic": pa.array([topic] * rows.num_rows),
            "partition": rows["partition"],
            "offset": rows["offset"],
            "timestamp": pc.divide(rows["timestamp"].cast(pa.int64()), 1000),
            "key": rows["key"],
            "value": rows[CORRUPT],
            "reason": pa.array([f"not {self._plan.value.options.format}: {typed.explain(row)}" for row in range(rows.num_rows)]),
        }
        letters = pa.RecordBatch.from_arrays([columns[name].cast(LETTERS.field(name).type) for name in LETTERS.names], schema=LETTERS)
        write_rows(plan_letters(self._written), as_messages(letters))

    def _read_again(self, rows: "pa.RecordBatch") -> "TypedColumn":
        """The malformed values once more, for the reasons."""
        import numpy as np

        from millstream.arrow.binary_columns import binary_column
        from millstream.arrow.field_decoding import make_format

        plan = self._plan.value
        column = binary_column(rows[CORRUPT])
        reader = make_format(plan.options.format, rows["value"].type, schemas=plan.avro, registry=self._plan.registry)
        return reader.read(column._replace(offsets=column.offsets.astype(np.int32)))
