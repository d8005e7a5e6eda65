"""Record batches of one partition, counted by the buckets of their records' times: the broker's tier.

A batch's header has the first record's time and the largest, and records between may be earlier than the first. So the times are read
from the records, with the compiled kernels of `arrow` where they are installed and there is much to read, else with the walker of
`wire.records`; only where the broker set the time (LogAppendTime) the header is enough. Markers of transactions and records of aborted ones
are counted apart, by their headers.
"""

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from millstream.audit.counter import BOUND_BYTES, COUNT_BYTES
from millstream.audit.reports.report import bucket_of
from millstream.audit.tally import Tally
from millstream.client.codecs.aborted_batches import AbortedBatches
from millstream.errors import CorruptMessage, KafkaError
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import HEADER_SIZE, BatchHeader, checked_header, split_batches
from millstream.wire.records import decompressed, walk_records

if TYPE_CHECKING:
    from millstream.arrow.record_buffers import RecordBuffers

logger = logging.getLogger(__name__)

HAS_KERNELS: Final = all(find_spec(name) is not None for name in ("numba", "numpy", "pyarrow"))
SMALL_FETCH: Final = 256 * 1024
"""Below this the walker is done before the kernels are loaded."""


class LogCounter:
    """Counts what was fetched of one partition, in order; `tallies` by bucket, and `next_offset`, where to go on."""

    def __init__(self, place: TopicPartition, *, start: int, end: int, bucket_ms: int, use_kernels: bool | None = None) -> None:
        self.place = place
        self.next_offset = start
        self.tallies: dict[int, Tally] = {}
        self._end = end
        self._bucket_ms = bucket_ms
        self._use_kernels = use_kernels

    @property
    def report_bytes(self) -> int:
        """About the size of a report of what was counted."""
        return sum(COUNT_BYTES + 2 * BOUND_BYTES * tally.runs for tally in self.tallies.values())

    def count(self, fetched: memoryview, aborted: Sequence[tuple[int, int]] = ()) -> None:
        """Take in the bytes of one fetch; `aborted` are producer ids and first offsets of transactions that were aborted."""
        batches = [
            (header, batch)
            for header, batch in split_batches(fetched)
            if header.next_offset > self.next_offset and header.base_offset < self._end
        ]
        visible = self._set_apart(batches, aborted)
        if all(_is_in_header(header) for header, _ in visible):
            for header, _ in visible:
                self._count_header(header)
        else:
            self._count_records(fetched, visible, aborted)
        if batches:
            self.next_offset = max(self.next_offset, min(batches[-1][0].next_offset, self._end))

    def _set_apart(
        self, batches: list[tuple[BatchHeader, memoryview]], aborted: Sequence[tuple[int, int]]
    ) -> list[tuple[BatchHeader, memoryview]]:
        """Count markers and aborted batches; returns the others."""
        transactions = AbortedBatches(aborted)
        visible = []
        for header, batch in batches:
            is_aborted = transactions.is_aborted(header, batch)
            count = self._records_in_range(header)
            if header.is_control:
                self._tally(header.max_timestamp).control += count
            elif is_aborted:
                self._tally(header.max_timestamp).aborted += count
            elif header.record_count:
                visible.append((header, batch))
        return visible

    def _records_in_range(self, header: BatchHeader) -> int:
        """Of a batch that is cut by a range; if records of it were compacted away, all of them are counted with its first part."""
        if header.record_count == header.last_offset_delta + 1:
            return min(header.next_offset, self._end) - max(header.base_offset, self.next_offset)
        return header.record_count if header.base_offset >= self.next_offset else 0

    def _count_header(self, header: BatchHeader) -> None:
        start, end = max(header.base_offset, self.next_offset), min(header.next_offset, self._end)
        tally = self._tally(header.max_timestamp)
        tally.count += end - start
        tally.bytes += header.size_bytes - HEADER_SIZE
        tally.add_offsets(start, end)

    def _count_records(
        self, fetched: memoryview, batches: list[tuple[BatchHeader, memoryview]], aborted: Sequence[tuple[int, int]]
    ) -> None:
        if self._use_kernels if self._use_kernels is not None else HAS_KERNELS and len(fetched) >= SMALL_FETCH:
            try:
                self._count_with_kernels(fetched, aborted)
                return
            except CorruptMessage as error:
                logger.debug("%s is counted batch by batch: %s", self.place, error)
        for header, batch in batches:
            try:
                self._walk(batch)
            except KafkaError as error:
                logger.error("the batch at offset %d of %s cannot be counted: %s", header.base_offset, self.place, error)
                self._tally(header.max_timestamp).malformed += max(header.record_count, 0)

    def _walk(self, batch: memoryview) -> None:
        header = checked_header(batch)
        fixed = header.max_timestamp if header.is_log_append_time else None
        payload = bytes(decompressed(batch, header))
        records = list(walk_records(payload, header))
        for offset, timestamp, key_start, key_stop, value_start, value_stop, _ in records:
            if self.next_offset <= offset < self._end:
                tally = self._tally(timestamp if fixed is None else fixed)
                tally.count += 1
                tally.bytes += (key_stop - key_start if key_start >= 0 else 0) + (value_stop - value_start if value_start >= 0 else 0)
                tally.add_offsets(offset, offset + 1)

    def _count_with_kernels(self, fetched: memoryview, aborted: Sequence[tuple[int, int]]) -> None:
        from millstream.arrow.kernels.record_kernel import WITH_KEY, WITH_VALUE
        from millstream.arrow.range_decoder import RangeDecoder

        decoder = RangeDecoder(self.place, start=self.next_offset, end=self._end, wanted=WITH_KEY | WITH_VALUE)
        # All of it first: what turns out to be damaged is counted batch by batch, and nothing of it twice.
        gathered = list(decoder.decode(fetched, aborted))
        if (rest := decoder.finish()) is not None:
            gathered.append(rest)
        for buffers in gathered:
            self._count_buffers(buffers)

    def _count_buffers(self, buffers: "RecordBuffers") -> None:
        """Runs of offsets without a gap in one bucket are counted at once."""
        import numpy as np

        offsets = buffers.offsets()
        times = buffers.timestamps_us() // 1000
        buckets = np.where(times < 0, -1, times // self._bucket_ms)
        edges = np.flatnonzero((np.diff(offsets) != 1) | (np.diff(buckets) != 0)) + 1
        sizes = buffers.keys().offsets + buffers.values().offsets.astype(np.int64)
        starts = [0, *edges.tolist()]
        ends = [*edges.tolist(), len(offsets)]
        for start, end in zip(starts, ends, strict=True):
            tally = self._tally(int(times[start]))
            tally.count += end - start
            tally.bytes += int(sizes[end] - sizes[start])
            tally.add_offsets(int(offsets[start]), int(offsets[end - 1]) + 1)

    def _tally(self, timestamp_ms: int) -> Tally:
        bucket = bucket_of(timestamp_ms, self._bucket_ms)
        tally = self.tallies.get(bucket)
        if tally is None:
            tally = self.tallies[bucket] = Tally()
        return tally


def _is_in_header(header: BatchHeader) -> bool:
    """Whether times and offsets of all records stand in the header: the broker set the time, and no record was compacted away."""
    return header.is_log_append_time and header.record_count == header.last_offset_delta + 1
