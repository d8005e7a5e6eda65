"""Transactions that the coordinator is asked about before they begin in a log: what the leader of a partition remembers meanwhile.

A transactional batch of a producer without an open transaction is appended only when the coordinator has confirmed it (KIP-890). Between
the question and the append the transaction may end: its marker comes, and a batch that is appended after it would open a transaction that
no marker ends. So a verification is good for an append only while it is remembered, and a marker of the producer makes the leader
forget it. Where each transaction has an epoch of its own, the marker of the last one carries the epoch of the next: that one does not.

One per producer id, as in Kafka. The lowest sequence that was to be verified is kept when a verification fails: a later batch must not take
the place of one that the producer is about to send again. When the producer has written something since, all of that is out of date. In
one thing Kafka is stricter: there a batch of a later epoch, which the coordinator refused, also bars those of the present one.
"""

from typing import Final

from millstream.errors import OutOfOrderSequenceNumber
from millstream.log.producer_state import ProducerEntry
from millstream.transaction_errors import InvalidTxnState
from millstream.wire.records import ProducerStamp

MAX_REMEMBERED: Final = 10_000
"""The oldest is forgotten beyond that; who still waits for it is refused."""


class Verification:
    """What the coordinator is asked about one producer."""

    __slots__ = ("asked_by", "bumps_epochs", "epoch", "last_offset", "lowest_sequence", "producer_id")

    def __init__(self, asked_by: "Verifications", producer: ProducerStamp, *, last_offset: int, bumps_epochs: bool) -> None:
        self.asked_by = asked_by
        self.last_offset = last_offset
        """What the producer had last written by then."""
        self.producer_id, self.epoch, self.lowest_sequence = producer
        self.bumps_epochs = bumps_epochs
        """Whether each transaction has an epoch of its own (`transaction.version` 2), in which sequences begin at 0."""

    def include(self, producer: ProducerStamp) -> None:
        """It is asked about another batch of the producer, too."""
        if producer.producer_epoch > self.epoch:
            self.epoch, self.lowest_sequence = producer.producer_epoch, producer.base_sequence
        elif producer.producer_epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, producer.base_sequence)


class Verifications:
    """All of one leader, by producer id, the oldest first."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(self, producer: ProducerStamp, entry: ProducerEntry | None, *, bumps_epochs: bool) -> Verification:
        """The coordinator is about to be asked about a batch of the producer, of which the log knows `entry`."""
        last_offset = -1 if entry is None else entry.last_offset
        verification = self._by_producer.get(producer.producer_id)
        if verification is not None and verification.last_offset == last_offset:
            verification.include(producer)
            return verification
        if len(self._by_producer) >= MAX_REMEMBERED:
            del self._by_producer[next(iter(self._by_producer))]
        verification = Verification(self, producer, last_offset=last_offset, bumps_epochs=bumps_epochs)
        self._by_producer[producer.producer_id] = verification
        return verification

    def check(self, verification: Verification, producer: ProducerStamp, entry: ProducerEntry | None) -> None:
        """Raise if a batch that the coordinator has confirmed must not be appended; `entry` is what the log knows of the producer."""
        if self._by_producer.get(producer.producer_id) is not verification:
            raise InvalidTxnState(f"the transaction of producer {producer.producer_id} ended while its batch waited")
        sequence = producer.base_sequence
        if verification.bumps_epochs and sequence > 0 and (entry is None or not entry.batches):
            raise OutOfOrderSequenceNumber(
                f"producer {producer.producer_id} begins with sequence {sequence}: it is not known here, and has to begin with 0"
            )
        if sequence > verification.lowest_sequence and producer.producer_epoch == verification.epoch:
            raise OutOfOrderSequenceNumber(
                f"producer {producer.producer_id} sent sequence {sequence}, and {verification.lowest_sequence} is not written yet"
            )

    def begun(self, producer_id: int) -> None:
        """The producer has begun a transaction in the log; one that is not known is fine."""
        self._by_producer.pop(producer_id, None)

    def ended(self, producer_id: int, epoch: int, *, bumps_epochs: bool) -> None:
        """A marker of that epoch has ended a transaction of the producer, in the epoch before it if `bumps_epochs`."""
        verification = self._by_producer.get(producer_id)
        if verification is not None and not (verification.bumps_epochs and bumps_epochs and verification.epoch == epoch):
            del self._by_producer[producer_id]
