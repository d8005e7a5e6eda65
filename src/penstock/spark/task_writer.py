"""The work of one task of a write: rows come as record batches of Arrow and leave as record batches of Kafka.

For each batch of rows: the columns as plain arrays, the partition of every row, the records appended to the open batches, the full ones
sent. Nothing here makes a Python object for a row. Whatever is wrong with a row is told with the column and the value that it has; rows of
the same task that came before it may have been written by then, as with Spark's own sink.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.metadata import NO_LEADER
from penstock.spark.batch_encoding import BatchPacker, Packed
from penstock.spark.batch_kernels import first_record_size, row_sizes
from penstock.spark.binary_columns import HeaderColumn, Offsets, Rows, header_column, no_headers, null_column
from penstock.spark.compiled import tell_if_slow
from penstock.spark.delivery import DeliveryFailed
from penstock.spark.field_encoding import FieldEncoder, field_encoder
from penstock.spark.partitioner import NO_PARTITION, Partitioner, PartitionOutOfRange
from penstock.spark.raw_producer import RawProducer
from penstock.spark.sink_options import SinkPlan
from penstock.spark.worker_producers import borrow_producer
from penstock.wire.batch import HEADER_SIZE


class Written(NamedTuple):
    """What a task has written."""

    row_count: int = 0
    topics: frozenset[str] = frozenset()


def write_rows(plan: SinkPlan, batches: Iterator[pa.RecordBatch]) -> Written:
    """Write all rows; they are on their topics when it returns. A task without rows talks to nobody."""
    tell_if_slow()
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Written()
    with borrow_producer(plan.producer) as producer:
        task = TaskWriter(plan, producer)
        task.write(first)
        for batch in batches:
            task.write(batch)
        return task.finish()


class TaskWriter:
    """The rows of one task."""

    def __init__(self, plan: SinkPlan, producer: RawProducer) -> None:
        self._plan = plan
        self._producer = producer
        self._partitioners: dict[str, Partitioner] = {}
        self._packer = BatchPacker(batch_size=plan.producer.batch_size, buffer_memory=plan.producer.buffer_memory)
        self._encoders: dict[str, FieldEncoder] = {}
        self._row_count = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of one batch."""
        if self._plan.topic is not None:
            self._write_topic(self._plan.topic, batch)
            return
        assert self._plan.topic_column is not None
        topics = batch.column(self._plan.topic_column)
        if topics.null_count:
            raise DeliveryFailed("a row has no topic: its column `topic` is null. Fill it, or set the option topic for all rows")
        names = pc.unique(topics).to_pylist()
        for name in names:
            # The key and value of a topic may have schemas of their own, so its rows are encoded by themselves.
            self._write_topic(name, batch if len(names) == 1 else batch.filter(pc.equal(topics, name)))

    def finish(self) -> Written:
        """Send what is left and wait until all of it is written."""
        self._send(self._packer.drain())
        self._producer.flush()
        return Written(self._row_count, frozenset(self._partitioners))

    def _write_topic(self, topic: str, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        rows = self._rows(topic, batch)
        sizes = row_sizes(rows)
        self._check_sizes(topic, sizes)
        partitioner = self._partitioner(topic)
        key = null_column(batch.num_rows) if self._plan.producer.ignores_keys else rows.key
        try:
            partitions = partitioner.choose(key, sizes=sizes, wanted=self._wanted_partitions(batch))
        except PartitionOutOfRange as error:
            raise self._no_partition(topic, batch, error.row) from None
        self._send(self._packer.pack(topic, rows, sizes=sizes, partitions=partitions, partition_count=partitioner.partition_count))
        self._packer.batch_size = self._producer.batch_size
        self._row_count += batch.num_rows

    def _partitioner(self, topic: str) -> Partitioner:
        found = self._partitioners.get(topic)
        if found is None:
            partitions = self._producer.topic(topic).partitions
            has_leader = [index in partitions and partitions[index].leader != NO_LEADER for index in range(max(partitions) + 1)]
            found = self._partitioners[topic] = Partitioner(has_leader, batch_size=self._plan.producer.batch_size)
        return found

    def _rows(self, topic: str, batch: pa.RecordBatch) -> Rows:
        headers = self._headers(batch)
        columns = []
        for name, field in (("key", self._plan.key), ("value", self._plan.value)):
            encoder = self._encoders.get(f"{topic} {name}")
            if encoder is None:
                encoder = self._encoders[f"{topic} {name}"] = field_encoder(self._plan, field, name=name, topic=topic)
            columns.append(encoder.encode(batch))
        return Rows(columns[0], columns[1], headers or no_headers(), headers is not None)

    def _headers(self, batch: pa.RecordBatch) -> HeaderColumn | None:
        if self._plan.headers_column is None:
            return None
        headers = header_column(batch.column(self._plan.headers_column))
        if headers.keys.is_null.any():
            raise DeliveryFailed("a row has a header without a name: a key in its column `headers` is null")
        return headers

    def _wanted_partitions(self, batch: pa.RecordBatch) -> Offsets | None:
        if self._plan.partition_column is None:
            return None
        partitions = batch.column(self._plan.partition_column)
        # -1 in the column is not an absent partition: it must not pass for one.
        moved = pc.if_else(pc.less(partitions, 0), pc.subtract(partitions.cast(pa.int64()), 1), partitions)
        found: Offsets = moved.fill_null(NO_PARTITION).to_numpy(zero_copy_only=False).astype(np.int64)
        return found

    def _check_sizes(self, topic: str, sizes: Offsets) -> None:
        limit = self._plan.producer.max_request_size
        largest = HEADER_SIZE + first_record_size(int(sizes.max()))
        # What compression may save is not known before; Java's producer judges the same way.
        if largest > limit:
            raise DeliveryFailed(
                f"a row for topic {topic!r} makes a record of {largest} bytes, more than kafka.max.request.size = {limit}: "
                "raise it, and max.message.bytes of the topic where that is smaller"
            )

    def _no_partition(self, topic: str, batch: pa.RecordBatch, row: int) -> DeliveryFailed:
        assert self._plan.partition_column is not None
        wanted = batch.column(self._plan.partition_column)[row].as_py()
        last = self._partitioners[topic].partition_count - 1
        return DeliveryFailed(f"a row asks for partition {wanted} of topic {topic!r}, which has the partitions 0 to {last}")

    def _send(self, batches: Packed) -> None:
        for place, batch in batches:
            self._producer.append(place, batch)
