"""Batches on their way to one partition: which may be sent, what an answer means, and what is sent again. No sockets, no waiting.

    queued ──sent──► in flight ──answered──► gone
       ▲                 │
       └────put back─────┘   the connection broke, the leader moved, the broker asks for patience

What always holds:
- Batches go out in the order of their sequences. After a failure nothing is sent until every batch in flight has come back: then all that
  is left is sent again, in order. So with an idempotent producer each batch is written once, whatever was lost on the way.
- At most five batches of a partition are in flight: brokers remember that many, and what they do not remember they would write again.
- The first batch of all goes alone: a broker that has nothing of a producer takes any sequence for its first, so one that overtakes a
  batch which has to be sent again would leave it out of order for ever.
- A batch too large for its topic is replaced by its halves; these keep its sequences, so those behind it need not change.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from millstream.buffer import Buffer
from millstream.client.errors import is_retriable
from millstream.errors import CorruptMessage, DuplicateSequenceNumber, MessageTooLarge, OutOfOrderSequenceNumber, RecordListTooLarge
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import NO_PRODUCER_ID, TRANSACTIONAL, read_header
from millstream.wire.compression import codec_of
from millstream.wire.records import ProducerStamp, decode_records, encode_batch

LAST_SEQUENCE: Final = 0x7FFFFFFF
MOST_IN_FLIGHT: Final = 5
"""As many batches of a partition as brokers remember of a producer."""


class Verdict(Enum):
    """What becomes of a batch after an answer."""

    DONE = auto()
    AGAIN = auto()
    SPLIT = auto()
    FAILED = auto()


class QueuedBatch:
    """One sealed batch, until it is written."""

    __slots__ = ("attempts", "content", "deadline", "is_in_flight", "place", "record_count", "unpacked_bytes")

    def __init__(self, place: TopicPartition, content: Buffer, *, record_count: int, unpacked_bytes: int, deadline: float) -> None:
        self.place = place
        self.content = content
        self.record_count = record_count
        self.unpacked_bytes = unpacked_bytes
        self.deadline = deadline
        self.attempts = 0
        self.is_in_flight = False


class PartitionQueue:
    """The batches of one partition that are not written yet, in order, and the sequence of the next one."""

    def __init__(self) -> None:
        self.batches: deque[QueuedBatch] = deque()
        self._next_sequence = 0
        self._in_flight = 0
        self._is_recovering = False
        self._has_written = False
        self._rest_until = 0.0

    def take_sequence(self, record_count: int) -> int:
        """The base sequence of the next batch; sequences begin again at 0 after 2^31 - 1."""
        taken = self._next_sequence
        self._next_sequence = (taken + record_count) & LAST_SEQUENCE
        return taken

    def next_to_send(self, now: float) -> QueuedBatch | None:
        """The batch whose turn it is, if one may be sent now."""
        most = MOST_IN_FLIGHT if self._has_written and not self._is_recovering else 1
        if now < self._rest_until or self._in_flight >= most:
            return None
        self._is_recovering = False
        # Those in flight stand before those that are not, except while recovering.
        return self.batches[self._in_flight] if self._in_flight < len(self.batches) else None

    def sent(self, batch: QueuedBatch) -> None:
        """The batch is in flight now."""
        batch.is_in_flight = True
        batch.attempts += 1
        self._in_flight += 1

    def done(self, batch: QueuedBatch) -> None:
        """The batch is written."""
        self._land(batch)
        self._has_written = True
        self.batches.remove(batch)

    def put_back(self, batch: QueuedBatch, *, rest_until: float) -> None:
        """The batch has to be sent again, or could not be sent at all; not before `rest_until`."""
        if batch.is_in_flight:
            self._land(batch)
            self._is_recovering = True
        self._rest_until = max(self._rest_until, rest_until)

    def split(self, batch: QueuedBatch) -> Sequence[QueuedBatch]:
        """Replace a batch by its two halves, and return them."""
        self._land(batch)
        self._is_recovering = True
        place = self.batches.index(batch)
        self.batches.remove(batch)
        halves = split_batch(batch)
        for half in reversed(halves):
            self.batches.insert(place, half)
        return halves

    def judge(self, batch: QueuedBatch, error_code: int) -> Verdict:
        """What an answer means for a batch."""
        if error_code in {0, DuplicateSequenceNumber.code}:
            return Verdict.DONE
        if error_code in {MessageTooLarge.code, RecordListTooLarge.code} and batch.record_count > 1:
            return Verdict.SPLIT
        # A gap, because the batch before it has failed and will be sent again.
        if error_code == OutOfOrderSequenceNumber.code and batch is not self.batches[0]:
            return Verdict.AGAIN
        # Damaged on the way; Java's producer sends it again, too.
        if error_code == CorruptMessage.code or is_retriable(error_code):
            return Verdict.AGAIN
        return Verdict.FAILED

    def _land(self, batch: QueuedBatch) -> None:
        assert batch.is_in_flight
        batch.is_in_flight = False
        self._in_flight -= 1


def split_batch(batch: QueuedBatch) -> Sequence[QueuedBatch]:
    """A batch of the first half of the records and one of the rest, of the same producer and in the same sequence."""
    header = read_header(batch.content)
    records = list(decode_records(batch.content))
    middle = len(records) // 2
    halves = []
    for start, part in ((0, records[:middle]), (middle, records[middle:])):
        sequence = (header.base_sequence + start) & LAST_SEQUENCE if header.producer_id != NO_PRODUCER_ID else header.base_sequence
        stamp = ProducerStamp(header.producer_id, header.producer_epoch, sequence)
        moved = [record._replace(offset=record.offset - start) for record in part]
        content = encode_batch(moved, codec=codec_of(header.codec), producer=stamp, flags=header.attributes & TRANSACTIONAL)
        half_bytes = batch.unpacked_bytes // 2
        halves.append(QueuedBatch(batch.place, content, record_count=len(part), unpacked_bytes=half_bytes, deadline=batch.deadline))
    return halves
