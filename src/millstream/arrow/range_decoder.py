"""Fetched bytes of one partition to gathered records: which batches count, in order, until the end of a range of offsets.

A batch counts if it has offsets of the range, is not a marker of the broker's (a control batch), and does not belong to an aborted
transaction where only committed records are wanted. Its CRC is checked, it is decompressed if it is compressed, and its records go to
`RecordBuffers`, which are handed on when they are full.

`next_offset` is where the next fetch begins; it moves past every batch that was looked at, also one that had no rows.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from millstream.arrow.kernels.compiled import Bytes, Ints
from millstream.arrow.kernels.record_kernel import (
    ATTRIBUTES,
    BASE_OFFSET,
    FIELD_COUNT,
    HEADER_SIZE,
    LAST_OFFSET_DELTA,
    MAGIC,
    OK,
    POSITION,
    PROBLEMS,
    PRODUCER_ID,
    RECORD_COUNT,
    SIZE,
    SMALLEST_RECORD,
    scan_batches,
)
from millstream.arrow.record_buffers import BYTE_CAPACITY, ROW_CAPACITY, RecordBuffers
from millstream.errors import CorruptMessage, KafkaError
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import CODEC_MASK, CONTROL, CRC_POSITION, CRC_START, TRANSACTIONAL
from millstream.wire.batch import MAGIC as FORMAT
from millstream.wire.compression import codec_of, decompress
from millstream.wire.crc32c import crc32c

AbortedTransactions = Sequence[tuple[int, int]]

_BATCHES_AT_ONCE: Final = 4096
_LARGE_FETCH: Final = 1024 * 1024
"""Who gets so much at once will get more."""
_ABORT: Final = b"\x00\x00"
_MARKER_TYPE: Final = slice(2, 4)
"""Where the key of a marker says what it is: version, then 0 for an abort and 1 for a commit."""


class RangeDecoder:
    """The records of one partition from `start` up to but not including `end`; `wanted` are the kernel's flags."""

    def __init__(self, place: TopicPartition, *, start: int, end: int, wanted: int, check_crcs: bool = True) -> None:
        self.place = place
        self.next_offset = start
        self.end = end
        self._start = start
        self._wanted = wanted
        self._check_crcs = check_crcs
        self._buffers: RecordBuffers | None = None
        self._is_large = False

    @property
    def is_done(self) -> bool:
        """Whether nothing more has to be fetched."""
        return self.next_offset >= self.end

    def skip_to(self, offset: int) -> None:
        """Go on at a later offset: what is before it is gone, also where a batch still has it."""
        self.next_offset = self._start = max(offset, self.next_offset)

    def decode(self, fetched: memoryview, aborted: AbortedTransactions = ()) -> Iterator[RecordBuffers]:
        """Take in the bytes of one fetch; yields what has become full. `aborted` are producer ids and first offsets."""
        data = np.frombuffer(fetched, np.uint8)
        self._is_large = len(data) >= _LARGE_FETCH
        transactions = _Transactions(aborted)
        position = 0
        while not self.is_done:
            batches = np.empty((min(len(data) // HEADER_SIZE + 1, _BATCHES_AT_ONCE), FIELD_COUNT), np.int64)
            count, position, code = scan_batches(data, position, batches)
            if count:
                yield from self._decode_batches(fetched, data, batches[:count], transactions)
            if code != OK:
                raise self._corrupt(self.next_offset, PROBLEMS[int(code)])
            if count < len(batches):
                return

    def finish(self) -> RecordBuffers | None:
        """What was gathered and not yet handed on."""
        buffers, self._buffers = self._buffers, None
        return buffers if buffers is not None and buffers.rows else None

    def _decode_batches(self, fetched: memoryview, data: Bytes, batches: Ints, transactions: "_Transactions") -> Iterator[RecordBuffers]:
        """Batches that are not compressed and lie behind each other go to the kernel together; nothing here runs per record, and per batch
        only the CRC and what is compressed or transactional."""
        next_offsets = batches[:, BASE_OFFSET] + batches[:, LAST_OFFSET_DELTA] + 1
        stop = int(np.argmax(next_offsets >= self.end)) + 1 if next_offsets[-1] >= self.end else len(batches)
        batches = batches[:stop][next_offsets[:stop] > self.next_offset]
        self._check_headers(fetched, batches)
        batches[:, POSITION] += HEADER_SIZE
        batches[:, SIZE] -= HEADER_SIZE
        if (batches[:, ATTRIBUTES] & (CONTROL | TRANSACTIONAL)).any():
            batches = batches[[transactions.is_visible(fetched, batch) for batch in batches]]
        batches = batches[batches[:, RECORD_COUNT] != 0]
        compressed = np.flatnonzero(batches[:, ATTRIBUTES] & CODEC_MASK)
        done = 0
        for index in compressed.tolist():
            yield from self._append(data, batches[done:index])
            yield from self._append_compressed(fetched, batches[index])
            done = index + 1
        yield from self._append(data, batches[done:])
        self.next_offset = max(self.next_offset, int(next_offsets[stop - 1]))

    def _check_headers(self, fetched: memoryview, batches: Ints) -> None:
        for batch in batches[batches[:, MAGIC] != FORMAT]:
            raise self._corrupt(batch[BASE_OFFSET], f"it has format {batch[MAGIC]}, from before Kafka 0.11; only format {FORMAT} is known")
        if not self._check_crcs:
            return
        for start, size, offset in batches[:, : BASE_OFFSET + 1].tolist():
            if crc32c(fetched[start + CRC_START : start + size]) != int.from_bytes(fetched[start + CRC_POSITION : start + CRC_START]):
                raise self._corrupt(offset, "its CRC is wrong; kafka.check.crcs = false reads it nevertheless")

    def _append_compressed(self, fetched: memoryview, batch: Ints) -> Iterator[RecordBuffers]:
        start, stop = int(batch[POSITION]), int(batch[POSITION] + batch[SIZE])
        try:
            plain = decompress(fetched[start:stop], codec_of(int(batch[ATTRIBUTES]) & CODEC_MASK))
        except KafkaError as error:
            raise self._corrupt(batch[BASE_OFFSET], str(error)) from None
        batch[POSITION], batch[SIZE] = 0, len(plain)
        yield from self._append(np.frombuffer(plain, np.uint8), batch[np.newaxis])

    def _append(self, data: Bytes, batches: Ints) -> Iterator[RecordBuffers]:
        """Hand the batches to the kernel, as many at a time as there is room for."""
        for batch in batches[(batches[:, RECORD_COUNT] < 0) | (batches[:, RECORD_COUNT] > batches[:, SIZE] // SMALLEST_RECORD)]:
            raise self._corrupt(batch[BASE_OFFSET], f"it says that it has {batch[RECORD_COUNT]} records, in {batch[SIZE]} bytes")
        while len(batches):
            rows, sizes = np.cumsum(batches[:, RECORD_COUNT]), np.cumsum(batches[:, SIZE])
            fitting = self._buffers.count_fitting(rows, sizes) if self._buffers is not None else 0
            if fitting:
                self._append_fitting(data, batches[:fitting], size_bytes=int(sizes[fitting - 1]))
                batches = batches[fitting:]
                continue
            if (full := self.finish()) is not None:
                yield full
            capacity = max(int(rows[0]), ROW_CAPACITY), max(int(sizes[0]), BYTE_CAPACITY)
            self._buffers = RecordBuffers(wanted=self._wanted, rows=capacity[0], size_bytes=capacity[1], is_large=self._is_large)

    def _append_fitting(self, data: Bytes, batches: Ints, *, size_bytes: int) -> None:
        assert self._buffers is not None, "room was made for them"
        try:
            self._buffers.append(data, batches, first_offset=self._start, end_offset=self.end, size_bytes=size_bytes)
        except CorruptMessage as error:
            first, last = batches[0][BASE_OFFSET], batches[-1][BASE_OFFSET] + batches[-1][LAST_OFFSET_DELTA]
            raise self._corrupt(first, f"{error} (somewhere up to offset {last})") from None

    def _corrupt(self, offset: int, problem: str) -> CorruptMessage:
        return CorruptMessage(f"the batch at offset {offset} of {self.place} cannot be read: {problem}")


class _Transactions:
    """Which transactional batches of one fetch are rows. The broker lists the aborted transactions that touch what it sent; each ends with
    its marker. Without a list, where uncommitted records are wanted too, only the markers are hidden."""

    def __init__(self, aborted: AbortedTransactions) -> None:
        self._coming = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        self._open: set[int] = set()

    def is_visible(self, fetched: memoryview, batch: Ints) -> bool:
        last_offset, producer_id = int(batch[BASE_OFFSET] + batch[LAST_OFFSET_DELTA]), int(batch[PRODUCER_ID])
        while self._coming and self._coming[-1][1] <= last_offset:
            self._open.add(self._coming.pop()[0])
        if batch[ATTRIBUTES] & CONTROL:
            if _marker_key(fetched, batch)[_MARKER_TYPE] == _ABORT:
                self._open.discard(producer_id)
            return False
        return producer_id not in self._open


def _marker_key(fetched: memoryview, batch: Ints) -> bytes:
    """The key of the one record of a marker, which the broker wrote: all its numbers before the key fit into a byte."""
    start = int(batch[POSITION])
    return bytes(fetched[start + 5 : min(start + 9, start + int(batch[SIZE]))])
