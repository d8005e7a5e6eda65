"""Messages that could not be read: kept in a file by the task that met them, produced to a topic by the driver after the table's commit.

    key, value                  as they were; a value above `LONGEST_VALUE` is cut, and `millstream.size` says how long it was; a key
                                above `LONGEST_KEY` is cut, too, so that the letter is one that brokers take
    millstream.topic            where the message is
    millstream.partition
    millstream.offset
    millstream.timestamp        milliseconds since 1970
    millstream.reason           why it could not be read

After a crash between the commit and here the micro-batch runs again, and they are produced again: at least once, each known by its place.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa

from millstream.arrow.record_buffers import RecordBuffers
from millstream.client.admin.topic_creation import find_or_create
from millstream.lake.place import Place, open_place
from millstream.spark.jobs.description.topic_input import DEAD_LETTER_OPTIONS
from millstream.spark.jobs.load.brokers import open_cluster
from millstream.spark.jobs.load.record_types import Malformed
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from millstream.spark.sink.write_plan import WritePlan

FOLDER: Final = "dead-letters"
LONGEST_VALUE: Final = 900_000
LONGEST_KEY: Final = 100_000
_LONGEST_ABOUT: Final = 500
_ROWS_AT_ONCE: Final = 1_000
LETTERS: Final = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary()),
        ("value", pa.binary()), ("reason", pa.string()),
    ]
)  # fmt: skip
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class DeadLetterFile:
    """The dead letters of one topic in one task; there is no file before there is one of them."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = checkpoint
        self._name = f"{FOLDER}/{uuid4().hex}.arrow"
        self._stream: Any = None
        self._writer: Any = None

    def add(self, place: TopicPartition, records: RecordBuffers, malformed: Malformed) -> None:
        """Keep those of the records that are malformed."""
        rows = np.flatnonzero(malformed.is_malformed)
        chosen = pa.array(rows)
        reasons = [malformed.explain(int(row)) for row in rows]
        columns = [
            pa.array([place.topic] * len(rows)),
            pa.array(np.full(len(rows), place.partition, np.int32)),
            pa.array(records.offsets()[rows]),
            pa.array(records.timestamps_us()[rows] // 1000),
            records.keys().to_arrow().take(chosen),
            records.values().to_arrow().take(chosen),
            pa.array(reasons, pa.string()),
        ]
        if self._writer is None:
            folder = open_place(self._checkpoint)
            folder.make_directory(FOLDER)
            self._stream = folder.files.open_output_stream(folder.child(self._name))
            self._writer = pa.ipc.new_stream(self._stream, LETTERS)
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=LETTERS))

    def close(self) -> str | None:
        """Complete the file; its name, if there is one."""
        if self._writer is None:
            return None
        self._writer.close()
        self._stream.close()
        return self._name

    def abandon(self) -> None:
        """Delete it."""
        if self._writer is not None:
            self._stream.close()
            open_place(self._checkpoint).delete(self._name)


def produce_dead_letters(settings: LoadSettings, topic: str, names: Sequence[str]) -> None:
    """Produce the dead letters of a topic that are in these files, then delete the files."""
    from millstream.spark.sink.task_writer import write_rows

    if not names:
        return
    target = settings.dead_letter_topic(topic)
    options = {f"kafka.{name}": value for name, value in settings.kafka.items()}
    plan = plan_letters({**options, "kafka.bootstrap.servers": settings.brokers, "topic": target})
    with open_cluster(settings) as cluster:
        find_or_create(cluster, target, partitions=1, configs=DEAD_LETTER_OPTIONS)
    place = open_place(settings.checkpoint)
    write_rows(plan, (rows for name in names for rows in _read(place, name)))
    for name in names:
        place.delete(name)


def plan_letters(options: Mapping[str, str]) -> "WritePlan":
    """How dead letters are written; `options` are those of a write."""
    from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

    from millstream.spark.sink.write_plan import plan_write

    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    columns = [StructField("key", BinaryType()), StructField("value", BinaryType()), StructField("headers", ArrayType(header))]
    return plan_write(options, StructType(columns))


def remove_leftovers(checkpoint: str) -> None:
    """Delete the files of a run that was killed: its micro-batch runs again, and writes them again."""
    place = open_place(checkpoint)
    if place.exists(FOLDER):
        place.files.delete_dir(place.child(FOLDER))


def _read(place: Place, name: str) -> Iterator[pa.RecordBatch]:
    with place.files.open_input_stream(place.child(name)) as stream, pa.ipc.open_stream(stream) as reader:
        for batch in reader:
            yield from as_messages(batch)


def as_messages(letters: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Dead letters, `LETTERS`, as the rows of a write, some at a time."""
    for start in range(0, letters.num_rows, _ROWS_AT_ONCE):
        yield _as_messages(letters.slice(start, _ROWS_AT_ONCE))


def _as_messages(rows: pa.RecordBatch) -> pa.RecordBatch:
    keys, values, headers = [], [], []
    for row in rows.to_pylist():
        key, value = row["key"], row["value"]
        about = {name: str(row[name])[:_LONGEST_ABOUT] for name in ("topic", "partition", "offset", "timestamp", "reason")}
        if value is not None and len(value) > LONGEST_VALUE:
            about["size"] = str(len(value))
            value = value[:LONGEST_VALUE]
        keys.append(None if key is None else key[:LONGEST_KEY])
        values.append(value)
        headers.append([{"key": f"millstream.{name}", "value": text.encode()} for name, text in about.items()])
    columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(headers, _HEADERS)]
    return pa.record_batch(columns, names=["key", "value", "headers"])
