"""Rows become record batches, one open batch for each partition that rows have come for.

An open batch is a buffer of `batch_size` bytes whose first 61 wait for the header. When the next record does not fit it is handed on with
its header still to be written: who sends it knows the producer and the sequence (`OpenBatch.seal`). A record bigger than a whole batch gets
one of its own. The open batches together hold at most `buffer_memory`: past that all of them are handed on, full or not.

The records of one partition keep the order of the rows.
"""

from collections.abc import Iterator

import numpy as np

from millstream.arrow.binary_columns import Offsets, Rows
from millstream.arrow.kernels.batch_kernels import first_record_size, group_rows, write_records
from millstream.arrow.kernels.compiled import Bytes
from millstream.buffer import Buffer
from millstream.spark.sink.producer_options import Compression
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import HEADER_SIZE, TRANSACTIONAL, sealed_header
from millstream.wire.compression import Codec, compress
from millstream.wire.records import ProducerStamp


class OpenBatch:
    """Records of one partition in a buffer, from its 61st byte on."""

    __slots__ = ("buffer", "end", "record_count")

    def __init__(self, capacity: int) -> None:
        self.buffer: Bytes = np.empty(capacity, dtype=np.uint8)
        self.end = HEADER_SIZE
        self.record_count = 0

    def fill(self, rows: Rows, picked: Offsets, sizes: Offsets) -> int:
        """Append records of the `picked` rows while they fit; returns how many did."""
        before = self.record_count
        self.end, self.record_count = write_records(rows, picked, sizes, self.buffer, (self.end, before))
        return self.record_count - before

    def seal(self, producer: ProducerStamp, *, compression: Compression, timestamp_ms: int, is_transactional: bool = False) -> Buffer:
        """The finished batch; uncompressed it is a view of the buffer, which must then not be written any more."""
        view = self.buffer.data[: self.end]
        if compression.codec != Codec.NONE:
            payload = compress(view[HEADER_SIZE:], compression.codec, level=compression.level)
            compressed = bytearray(HEADER_SIZE + len(payload))
            compressed[HEADER_SIZE:] = payload
            view = memoryview(compressed)
        count = self.record_count
        attributes = compression.codec | (TRANSACTIONAL if is_transactional else 0)
        fields = (attributes, count - 1, timestamp_ms, timestamp_ms, *producer, count)
        view[:HEADER_SIZE] = sealed_header(fields, view[HEADER_SIZE:])
        return view


Packed = Iterator[tuple[TopicPartition, OpenBatch]]


class BatchPacker:
    """The open batches of one task."""

    def __init__(self, *, batch_size: int, buffer_memory: int) -> None:
        self.batch_size = batch_size
        """How large the next batches get; it may be changed."""
        self._buffer_memory = buffer_memory
        self._open: dict[TopicPartition, OpenBatch] = {}
        self._held_bytes = 0

    def pack(self, topic: str, rows: Rows, *, sizes: Offsets, partitions: Offsets, partition_count: int) -> Packed:
        """Append rows of one topic, and hand on the batches that are full."""
        ordered, starts = group_rows(partitions, partition_count)
        for partition in np.flatnonzero(np.diff(starts)):
            picked = ordered[starts[partition] : starts[partition + 1]]
            yield from self._fill(TopicPartition(topic, int(partition)), rows, picked, sizes)
        if self._held_bytes > self._buffer_memory:
            yield from self.drain()

    def drain(self) -> Packed:
        """Hand on all that is open."""
        opened, self._open, self._held_bytes = self._open, {}, 0
        yield from opened.items()

    def _fill(self, place: TopicPartition, rows: Rows, picked: Offsets, sizes: Offsets) -> Packed:
        while picked.size:
            batch = self._open.get(place)
            if batch is None:
                batch = self._open[place] = OpenBatch(max(self.batch_size, HEADER_SIZE + first_record_size(int(sizes[picked[0]]))))
                self._held_bytes += HEADER_SIZE
            before = batch.end
            picked = picked[batch.fill(rows, picked, sizes) :]
            self._held_bytes += batch.end - before
            if picked.size:
                self._held_bytes -= batch.end
                del self._open[place]
                yield place, batch
