"""What the log remembers of idempotent producers, so that a batch sent twice is written once and a lost one leaves no gap.

Per producer id: its epoch and the sequence ranges of its last five batches (a producer may have five requests in flight). A batch whose
range is among them is a duplicate and is answered with the offset it got the first time. Otherwise its sequence has to follow the last
one; a new epoch starts at 0; a producer the log does not know may start anywhere, because its older records may have been deleted.

`learn` is the one definition of what a batch in the log says of its producer; a leader and a follower call it for what they append,
recovery and replay for what they find. A transactional batch opens a transaction, a marker of the coordinator's (`transactions.marker`)
ends it; which are open, `transactions.open_transactions` keeps. A marker has no sequence, and its epoch counts: it may be the one that
fences the producer (KIP-890). Nor has what a coordinator of the broker writes for a producer, offsets in a transaction: only its epoch is
checked. A control batch of `END_OF_PRODUCERS` that is no marker of a transaction makes it forget all: they were producers of another
cluster, and their ids may be in use here.

At most `MAX_PRODUCERS` are remembered per log: a client can write under any number of ids, and each costs memory until it expires. The ones
that wrote longest ago are forgotten first; if one comes back, it may start anywhere, like any producer that is not known.

All of it can be rebuilt from the batches; snapshots (`producer_snapshots`) only make that short. Their content, as Kafka's:

    2  version, 1
    4  CRC-32C of everything from byte 6 on
    4  number of producers
   46  per producer: 8 id, 2 epoch, 4 last sequence, 8 last offset, 4 offset delta of the last batch, 8 timestamp,
       4 coordinator epoch, 8 first offset of the open transaction or -1

Only the last batch of a producer is stored, as in Kafka. There an older one of the five counts as out of turn after a restart; here it is
looked for in the log when it is sent again (`older_batches`).
"""

import logging
from collections.abc import Iterator
from enum import Enum
from heapq import nsmallest
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Self

from millstream.buffer import Buffer
from millstream.errors import CorruptMessage, InvalidProducerEpoch, KafkaError, OutOfOrderSequenceNumber, TransactionalIdAuthorizationFailed
from millstream.wire.batch import CONTROL, NO_SEQUENCE, TRANSACTIONAL, BatchHeader
from millstream.wire.crc32c import crc32c

if TYPE_CHECKING:
    from millstream.log.segments import Segments
    from millstream.log.transactions.open_transactions import AbortedTransaction, OpenTransactions

REMEMBERED_BATCHES = 5
MAX_PRODUCERS = 10_000
FORGOTTEN_AT_ONCE = 1_000
"""Finding the oldest means to look at all of them."""
MAX_SEQUENCE = 2**31 - 1
END_OF_PRODUCERS = 2**63 - 1
"""Producer id of the control batch after which no producer before it is known any more: a mirror was promoted (`log.mirroring`)."""
SNAPSHOT_VERSION = 1

_SNAPSHOT_HEAD = Struct(">hI")
_SNAPSHOT_COUNT = Struct(">i")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_IN_TRANSACTION = CONTROL | TRANSACTIONAL
BUMPS_EPOCHS = 2
"""The `transaction.version` from which on each transaction ends with another epoch (KIP-890)."""
_last_offset = attrgetter("last_offset")
_transaction_first_offset = attrgetter("transaction_first_offset")
_make = tuple.__new__
"""As in `wire.batch`: a named tuple without a call of Python's, for every batch."""
_logger = logging.getLogger(__name__)


class TransactionalWrites(Enum):
    """Which transactional batches may be appended."""

    REFUSED = "none: the request names no transactional id"
    CONTINUED = "those of a transaction that is open in this log"
    VERIFIED = "all: the coordinator has said so, or the broker itself writes"


class WrittenBatch(NamedTuple):
    """A batch of a producer, as the log remembers it."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """One producer: its epoch and its last batches, the oldest first."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "is_from_snapshot", "last_timestamp", "producer_id", "transaction_first_offset")

    def __init__(self, producer_id: int, epoch: int, *, last_timestamp: int = -1) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[WrittenBatch] = []
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = -1
        self.transaction_first_offset = -1
        self.is_from_snapshot = False
        """Whether the log may have batches of this epoch, right before those that are known, that were not looked for."""

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; -1 when the log has none of this epoch."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        """Offset of the last record; -1 when the log has none of this epoch."""
        return self.batches[-1].last_offset if self.batches else -1


class ProducerState:
    """All producers of one log."""

    __slots__ = ("_entries", "segments", "transactions")

    def __init__(self, entries: dict[int, ProducerEntry] | None = None) -> None:
        self._entries: dict[int, ProducerEntry] = entries or {}
        self.transactions: OpenTransactions | None = None
        """Those of the producers; None as long as there was none, which is so in most logs."""
        self.segments: Segments | None = None
        """Where the batches are that a snapshot left out; None if there was no snapshot."""
        in_transaction = (entry for entry in self._entries.values() if entry.transaction_first_offset >= 0)
        for entry in sorted(in_transaction, key=_transaction_first_offset):
            self._begin_transaction(entry.producer_id, entry.transaction_first_offset)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """The producer, if the log knows it."""
        return self._entries.get(producer_id)

    def check(self, header: BatchHeader, transactional: TransactionalWrites = TransactionalWrites.REFUSED) -> WrittenBatch | None:
        """None if the batch may be written; the batch as it was written if it is a duplicate; raises if it is out of turn.

        What has no sequence has no turn, only an epoch. A transactional batch that begins a transaction here has to be verified before
        anything else is said of it: Unverified.
        """
        entry = self._entries.get(header.producer_id)
        if (
            header.attributes & TRANSACTIONAL
            and transactional is not TransactionalWrites.VERIFIED
            and (
                transactional is TransactionalWrites.REFUSED
                or entry is None
                or entry.transaction_first_offset < 0
                or entry.epoch != header.producer_epoch
            )
        ):
            raise _not_in_transaction(header, transactional, entry)
        if entry is None:
            return None
        base_sequence = header.base_sequence
        if header.producer_epoch != entry.epoch:
            if header.producer_epoch < entry.epoch:
                raise _fenced(header, entry)
            if base_sequence > 0:
                raise OutOfOrderSequenceNumber(
                    f"producer {header.producer_id} starts epoch {header.producer_epoch} with sequence {base_sequence} instead of 0"
                )
        elif base_sequence != NO_SEQUENCE:
            expected = (entry.last_sequence + 1) & MAX_SEQUENCE
            if base_sequence != expected:
                written = self.written_as(header)
                if written is not None:
                    return written
                raise OutOfOrderSequenceNumber(
                    f"producer {header.producer_id} sent sequence {base_sequence} where {expected} had to follow (epoch {entry.epoch})"
                )
        if entry.transaction_first_offset >= 0 and not header.attributes & TRANSACTIONAL:
            from millstream.transaction_errors import InvalidTxnState

            raise InvalidTxnState(
                f"producer {header.producer_id} has a transaction open since offset {entry.transaction_first_offset}: "
                "until it is committed or aborted, it can only write in that transaction"
            )
        return None

    def written_as(self, header: BatchHeader) -> WrittenBatch | None:
        """The batch as it was written, if it is among the last of its producer, in this epoch."""
        entry = self._entries.get(header.producer_id)
        if entry is not None and entry.epoch == header.producer_epoch:
            if entry.is_from_snapshot and self.segments is not None:
                self._recall_older(self.segments, entry, header)
            for batch in entry.batches:
                if batch.base_sequence == header.base_sequence >= 0 and batch.last_sequence == header.last_sequence:
                    return batch
        return None

    def _recall_older(self, segments: "Segments", entry: ProducerEntry, header: BatchHeader) -> None:
        """Look for what a snapshot left out, once, if the batch seems to be one of those."""
        is_before = entry.batches and 0 < (entry.batches[0].base_sequence - header.base_sequence) & MAX_SEQUENCE <= MAX_SEQUENCE // 2
        if is_before and len(entry.batches) < REMEMBERED_BATCHES:
            from millstream.log.older_batches import find_older  # most brokers never need it

            try:
                entry.batches[:0] = find_older(segments, entry)
            except (CorruptMessage, OSError) as error:
                _logger.warning("the last batches of producer %d are not known: %s", entry.producer_id, error)
                return
            entry.is_from_snapshot = False

    def check_marker(self, producer_id: int, epoch: int, *, coordinator_epoch: int, transaction_version: int) -> None:
        """Raise if a marker must not be written: the producer, or the coordinator, is known by a later epoch.

        From transaction version 2 on the marker has to bring a later epoch than the records of the transaction; that it comes once more
        does no harm.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        is_repeated = epoch == entry.epoch and entry.transaction_first_offset < 0
        if epoch < entry.epoch or (transaction_version >= BUMPS_EPOCHS and epoch == entry.epoch and not is_repeated):
            raise InvalidProducerEpoch(
                f"a marker of producer {producer_id} has epoch {epoch} (transaction version {transaction_version}), "
                f"the log has seen epoch {entry.epoch}"
            )
        if coordinator_epoch < entry.coordinator_epoch:
            from millstream.transaction_errors import TransactionCoordinatorFenced

            raise TransactionCoordinatorFenced(
                f"a marker of producer {producer_id} comes from coordinator epoch {coordinator_epoch}, "
                f"the log has seen epoch {entry.coordinator_epoch}"
            )

    def learn(self, header: BatchHeader, batch: Buffer, *, base_offset: int) -> "AbortedTransaction | None":
        """Take note of a batch of a producer, data or marker, that stands in the log at `base_offset`; the transaction that it aborts."""
        in_transaction = header.attributes & _IN_TRANSACTION
        if in_transaction & CONTROL:
            if header.producer_id == END_OF_PRODUCERS and in_transaction == CONTROL:
                self.clear()
                return None
            if not header.record_count:
                return None  # A marker that compaction emptied: its transaction is gone from the log.
        entry = self._entries.get(header.producer_id)
        if entry is None:
            if len(self._entries) >= MAX_PRODUCERS:
                self._forget_oldest()
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_id, header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches = []
            entry.is_from_snapshot = False
        entry.last_timestamp = header.max_timestamp
        if in_transaction:
            if in_transaction & CONTROL:
                return self._learn_marker(entry, batch, offset=base_offset)
            if entry.transaction_first_offset < 0:
                entry.transaction_first_offset = base_offset
                self._begin_transaction(entry.producer_id, base_offset)
        batches = entry.batches
        first, delta = header.base_sequence, header.last_offset_delta
        last = (first + delta) & MAX_SEQUENCE if first >= 0 else NO_SEQUENCE
        batches.append(_make(WrittenBatch, (first, last, base_offset, base_offset + delta, header.max_timestamp)))
        if len(batches) > REMEMBERED_BATCHES:
            del batches[0]
        return None

    def _begin_transaction(self, producer_id: int, first_offset: int) -> None:
        if self.transactions is None:
            from millstream.log.transactions.open_transactions import OpenTransactions

            self.transactions = OpenTransactions()
        self.transactions.begin(producer_id, first_offset)

    def _learn_marker(self, entry: ProducerEntry, batch: Buffer, *, offset: int) -> "AbortedTransaction | None":
        from millstream.log.transactions.marker import read_marker  # most logs have no transactions
        from millstream.log.transactions.open_transactions import AbortedTransaction

        marker = read_marker(batch)
        if marker is not None:
            entry.coordinator_epoch = marker.coordinator_epoch
        first_offset, entry.transaction_first_offset = entry.transaction_first_offset, -1
        if first_offset < 0 or self.transactions is None:
            return None
        last_stable_offset = self.transactions.end(entry.producer_id, offset)
        is_aborted = marker is not None and not marker.is_commit
        return AbortedTransaction(entry.producer_id, first_offset, offset, last_stable_offset) if is_aborted else None

    def expire(self, *, older_than_ms: int) -> int:
        """Forget the producers whose last batch is older and who have no transaction open; how many that were."""
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.last_timestamp <= older_than_ms and entry.transaction_first_offset < 0
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def _forget_oldest(self) -> None:
        count = len(self._entries) - MAX_PRODUCERS + FORGOTTEN_AT_ONCE
        idle = (entry for entry in self._entries.values() if entry.transaction_first_offset < 0)
        for entry in nsmallest(count, idle, key=_last_offset):
            del self._entries[entry.producer_id]

    def clear(self) -> None:
        """Forget all producers."""
        self._entries.clear()
        self.transactions = None

    def render(self) -> bytes:
        """The content of a snapshot file."""
        body = bytearray(_SNAPSHOT_COUNT.pack(len(self)))
        for entry in self:
            last = entry.batches[-1] if entry.batches else None
            body += _SNAPSHOT_ENTRY.pack(
                entry.producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.last_offset,
                last.last_offset - last.base_offset if last else 0,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
        return _SNAPSHOT_HEAD.pack(SNAPSHOT_VERSION, crc32c(body)) + body

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """The producers in a snapshot; ValueError if it is damaged."""
        start = _SNAPSHOT_HEAD.size + _SNAPSHOT_COUNT.size
        if len(content) < start:
            raise ValueError(f"only {len(content)} bytes")
        version, crc = _SNAPSHOT_HEAD.unpack_from(content)
        (count,) = _SNAPSHOT_COUNT.unpack_from(content, _SNAPSHOT_HEAD.size)
        if (
            version != SNAPSHOT_VERSION
            or crc != crc32c(content[_SNAPSHOT_HEAD.size :])
            or len(content) != start + count * _SNAPSHOT_ENTRY.size
        ):
            raise ValueError(f"version {version}, {count} producers in {len(content)} bytes: wrong CRC or size")
        entries: dict[int, ProducerEntry] = {}
        for fields in _SNAPSHOT_ENTRY.iter_unpack(content[start:]):
            producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first_offset = fields
            entry = ProducerEntry(producer_id, epoch, last_timestamp=timestamp)
            entry.coordinator_epoch = coordinator_epoch
            entry.transaction_first_offset = first_offset
            if last_offset >= 0:
                base_sequence = (last_sequence - offset_delta) & MAX_SEQUENCE if last_sequence >= 0 else NO_SEQUENCE
                entry.batches.append(WrittenBatch(base_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp))
                entry.is_from_snapshot = base_sequence != NO_SEQUENCE
            entries[producer_id] = entry
        return cls(entries)


def _fenced(header: BatchHeader, entry: ProducerEntry) -> InvalidProducerEpoch:
    return InvalidProducerEpoch(f"producer {header.producer_id} sent epoch {header.producer_epoch}, the log has seen epoch {entry.epoch}")


def without_transactional_id() -> TransactionalIdAuthorizationFailed:
    """The error for a transactional batch in a request that does not say whose transaction it is."""
    return TransactionalIdAuthorizationFailed("a transactional batch in a request without a transactional id")


def _not_in_transaction(header: BatchHeader, transactional: TransactionalWrites, entry: ProducerEntry | None) -> KafkaError:
    if transactional is TransactionalWrites.REFUSED:
        return without_transactional_id()
    if entry is not None and header.producer_epoch < entry.epoch:
        error = _fenced(header, entry)
        error.is_of_request = True  # as in Kafka, which does not ask the coordinator either
        return error
    from millstream.transaction_errors import Unverified

    return Unverified(f"producer {header.producer_id} has no transaction open in this log in epoch {header.producer_epoch}")
