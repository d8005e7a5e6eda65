"""The work of one task of a write: rows come as record batches of Arrow and leave as record batches of Kafka.

For each batch of rows: keys and values as bytes, the partition of every row, the records appended to the open batches, the full ones sent.
Nothing here makes a Python object for a row. An error about a row names the column and the value; rows of the
same task that came before it may have been written by then, as with Spark's own sink.
"""

from collections.abc import Iterator
from functools import partial
from time import time
from typing import NamedTuple

import pyarrow as pa

from millstream.arrow.binary_columns import Offsets, null_column
from millstream.arrow.kernels.batch_kernels import first_record_size, row_sizes
from millstream.arrow.kernels.compiled import warn_if_slow
from millstream.audit.reports.report import bucket_of
from millstream.client.codecs.metadata import NO_LEADER
from millstream.client.errors import DeliveryFailed
from millstream.client.raw_producer import RawProducer
from millstream.client.transactions import OpenTransaction
from millstream.spark.exactly_once.task_transaction import task_transaction
from millstream.spark.sink.batch_encoding import BatchPacker, OpenBatch, Packed
from millstream.spark.sink.partitioner import Partitioner, PartitionOutOfRange
from millstream.spark.sink.row_digest import RowsDigest
from millstream.spark.sink.row_encoding import RowEncoder, TopicRows
from millstream.spark.sink.sink_audit import SinkCount
from millstream.spark.sink.write_plan import WritePlan
from millstream.spark.worker_connections import borrow_producer
from millstream.wire.batch import HEADER_SIZE


class Written(NamedTuple):
    """What a task has written, or would have; the digest is 0 where none was asked for."""

    row_count: int = 0
    topics: frozenset[str] = frozenset()
    digest: int = 0
    counts: tuple[SinkCount, ...] = ()
    transaction: OpenTransaction | None = None
    """The open transaction of the rows, which the driver ends."""


def write_rows(
    plan: WritePlan, batches: Iterator[pa.RecordBatch], *, with_digest: bool = False, transactional_id: str | None = None
) -> Written:
    """Write all rows; they are on their topics when it returns, with an id in a transaction that is left open. A task without rows opens
    neither a connection nor a transaction."""
    warn_if_slow()
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Written()
    with borrow_producer(plan.producer) as producer, task_transaction(producer, transactional_id) as transaction:
        task = TaskWriter(plan, producer, digest=RowsDigest() if with_digest else None)
        task.write(first)
        for batch in batches:
            task.write(batch)
        return task.finish()._replace(transaction=transaction)


def digest_rows(plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> Written:
    """What `write_rows` would have written, without writing it."""
    warn_if_slow()
    encoder, digest, topics = RowEncoder(plan), RowsDigest(), set()
    for batch in batches:
        for part in encoder.encode(batch):
            digest.add(part.topic, part.rows, part.wanted)
            topics.add(part.topic)
    return Written(digest.row_count, frozenset(topics), digest.value)


class TaskWriter:
    """The rows of one task."""

    def __init__(self, plan: WritePlan, producer: RawProducer, *, digest: RowsDigest | None = None) -> None:
        self._plan = plan
        self._producer = producer
        self._digest = digest
        self._partitioners: dict[str, Partitioner] = {}
        self._packer = BatchPacker(batch_size=plan.producer.batch_size, buffer_memory=plan.producer.buffer_memory)
        self._encoder = RowEncoder(plan)
        self._row_count = 0
        self._counts: dict[tuple[str, int], list[int]] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of one batch."""
        for part in self._encoder.encode(batch):
            self._write_topic(part)

    def finish(self) -> Written:
        """Send what is left and wait until all of it is written."""
        self._send(self._packer.drain())
        self._producer.flush()
        counts = tuple(SinkCount(topic, bucket, *numbers) for (topic, bucket), numbers in self._counts.items())
        return Written(self._row_count, frozenset(self._partitioners), self._digest.value if self._digest else 0, counts)

    def _write_topic(self, part: TopicRows) -> None:
        topic, rows, wanted, batch = part
        sizes = row_sizes(rows)
        self._check_sizes(topic, sizes)
        partitioner = self._partitioner(topic)
        key = null_column(batch.num_rows) if self._plan.ignores_keys else rows.key
        try:
            partitions = partitioner.choose(key, sizes=sizes, wanted=wanted)
        except PartitionOutOfRange as error:
            raise self._no_partition(topic, batch, error.row) from None
        self._send(self._packer.pack(topic, rows, sizes=sizes, partitions=partitions, partition_count=partitioner.partition_count))
        self._packer.batch_size = self._producer.batch_size
        self._row_count += batch.num_rows
        if self._digest is not None:
            self._digest.add(topic, rows, wanted)

    def _partitioner(self, topic: str) -> Partitioner:
        found = self._partitioners.get(topic)
        if found is None:
            partitions = self._producer.topic(topic).partitions
            has_leader = [index in partitions and partitions[index].leader != NO_LEADER for index in range(max(partitions) + 1)]
            found = self._partitioners[topic] = Partitioner(has_leader, batch_size=self._plan.producer.batch_size)
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
            timestamp_ms = int(time() * 1000)
            self._count(place.topic, timestamp_ms, batch)
            seal = partial(
                batch.seal,
                compression=self._plan.compression,
                timestamp_ms=timestamp_ms,
                is_transactional=self._producer.settings.is_transactional,
            )
            self._producer.append(place, seal, record_count=batch.record_count, size_bytes=batch.end)

    def _count(self, topic: str, timestamp_ms: int, batch: OpenBatch) -> None:
        """For the audit: all records of a batch have one time."""
        if self._plan.audit is not None:
            numbers = self._counts.setdefault((topic, bucket_of(timestamp_ms, self._plan.audit.bucket_ms)), [0, 0])
            numbers[0] += batch.record_count
            numbers[1] += batch.end - HEADER_SIZE
