"""The machine of the transaction coordinator: the transactional ids of one partition of `__transaction_state`.

It is a `CoordinatorShard`: `apply` replays the log, `loaded` ends the replay; then commands, written markers and ticks are decided one at a
time. What one transactional id may do, `Transaction` says; here they are found, timed and forgotten.

A decision to end a transaction leaves markers to be written, beside records and answers. They must not be sent before the record of the
decision is committed, and are to be sent again until `markers_written` was called for every partition; a machine that was loaded anew asks
for all of them again, which does no harm. The epoch of the coordinator, which is the leader epoch of its partition, fences markers of
former coordinators at the partitions.

Errors are answers. A command that needs a new producer id says so before (`needs_producer_id`); without one it is answered with
CONCURRENT_TRANSACTIONS, which clients try again.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from millstream.coordinator_shard import CoordinatorRecord, Fields, Outcome, Waiter
from millstream.errors import InvalidRequest, InvalidTransactionTimeout, KafkaError
from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import ConcurrentTransactions, InvalidProducerIdMapping, TransactionAbortable, TransactionalIdNotFound
from millstream.transactions.commands import AddPartitions, EndTransaction, InitProducerId, TransactionCommand, VerifyPartitions
from millstream.transactions.deadlines import Deadlines
from millstream.transactions.records import decode_key, decode_value, encode_record, encode_tombstone
from millstream.transactions.settings import TransactionSettings
from millstream.transactions.transaction import AT_REST, NO_EPOCH, NO_PRODUCER, PREPARED, Producer, State, Transaction

logger = logging.getLogger(__name__)

MAX_ID_BYTES: Final = 32_767
"""What the length of a string in a record can say. Flexible versions of requests can say more."""


class MarkerBatch(NamedTuple):
    """The markers of one transaction that are to be written."""

    transactional_id: str
    producer: Producer
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


class TransactionOutcome(Outcome):
    """Records to write, answers to send, and markers to write when the records are committed."""

    __slots__ = ("markers",)

    def __init__(self) -> None:
        super().__init__()
        self.markers: list[MarkerBatch] = []

    @property
    def has_consequences(self) -> bool:
        """Whether there are markers to write."""
        return bool(self.markers)

    def merge(self, other: Outcome) -> None:
        """Take over what `other` holds, after what is here."""
        super().merge(other)
        if isinstance(other, TransactionOutcome):
            self.markers += other.markers


class TransactionShard:
    """Decides commands, and what time and written markers bring."""

    def __init__(self, settings: TransactionSettings, *, coordinator_epoch: int) -> None:
        self._settings = settings
        self._coordinator_epoch = coordinator_epoch
        self._transactions: dict[str, Transaction] = {}
        """By transactional id, the one that was changed last is the last."""
        self._unmarked: dict[str, set[TopicPartition]] = {}
        """The partitions that have no marker yet, of transactions whose end was decided."""
        self._deadlines = Deadlines(settings)
        self._left_open: dict[str, Transaction] = {}
        """While the log is replayed: those that go on when it is, out of a hundred thousand perhaps."""

    def __len__(self) -> int:
        return len(self._transactions)

    # --- replay

    def apply(self, record: CoordinatorRecord) -> None:
        """Replay one record; kinds that are not known are skipped. MalformedFrame if it makes no sense."""
        transactional_id = decode_key(record.key)
        if transactional_id is None:
            return
        self._transactions.pop(transactional_id, None)
        self._left_open.pop(transactional_id, None)
        if record.value is not None:
            transaction = self._transactions[transactional_id] = decode_value(transactional_id, record.value)
            if transaction.state is State.ONGOING or transaction.state in PREPARED:
                self._left_open[transactional_id] = transaction

    def apply_pending(self, record: CoordinatorRecord, producer_id: int) -> None:
        """Nothing of its topic is written in transactions of clients: a record that is, is no record of ours."""

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Nor has its topic markers."""

    def loaded(self, now_ms: int) -> TransactionOutcome:
        """The log has been replayed: time begins to count, and what was decided goes on."""
        outcome = TransactionOutcome()
        self._deadlines.start(now_ms)
        left_open, self._left_open = self._left_open, {}
        for transaction in left_open.values():
            if transaction.state in PREPARED:
                self._write_markers(transaction, outcome, now_ms=now_ms)
            else:
                self._deadlines.began(transaction)
        return outcome

    def unloaded(self) -> TransactionOutcome:
        """No request waits here: every command is answered at once."""
        return TransactionOutcome()

    # --- commands

    def needs_producer_id(self, command: TransactionCommand) -> bool:
        """Whether the command should come with a new producer id."""
        if isinstance(command, AddPartitions | VerifyPartitions) or not command.transactional_id:
            return False
        transaction = self._transactions.get(command.transactional_id)
        if isinstance(command, InitProducerId):
            return transaction is None or transaction.needs_id_to_begin(command.expected)
        return transaction is not None and transaction.needs_id_to_end(client_version=command.client_version)

    def handle(self, command: TransactionCommand, waiter: Waiter, now_ms: int) -> TransactionOutcome:
        """Decide one command; it is answered in this outcome."""
        outcome = TransactionOutcome()
        try:
            if not command.transactional_id:
                raise InvalidRequest("a transactional id must not be empty")
            match command:
                case InitProducerId():
                    fields = self._init_producer_id(command, outcome, now_ms=now_ms)
                case AddPartitions():
                    fields = self._add_partitions(command, outcome, now_ms=now_ms)
                case VerifyPartitions():
                    fields = self._verify_partitions(command)
                case EndTransaction():
                    fields = self._end(command, outcome, now_ms=now_ms)
        except KafkaError as error:
            fields = {"error_code": error.code, "producer_id": NO_PRODUCER, "producer_epoch": NO_EPOCH}
        outcome.reply(waiter, fields)
        return outcome

    def _init_producer_id(self, command: InitProducerId, outcome: TransactionOutcome, *, now_ms: int) -> Fields:
        transactional_id, timeout_ms, expected, new_producer_id = command
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            raise InvalidTransactionTimeout(
                f"a transaction time-out of {timeout_ms} ms; transaction.max.timeout.ms allows {self._settings.max_timeout_ms}"
            )
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            if len(transactional_id.encode()) > MAX_ID_BYTES:
                raise InvalidRequest(f"a transactional id of {len(transactional_id.encode())} bytes; {MAX_ID_BYTES} are possible")
            if new_producer_id is None:
                raise ConcurrentTransactions(f"{transactional_id!r} is new and needs a producer id: ask again")
            transaction = Transaction(transactional_id, new_producer_id, NO_EPOCH, timeout_ms)
        transaction.check_may_begin(expected)
        if transaction.state is State.ONGOING:
            self._decide(transaction.fenced(now_ms=now_ms), outcome, now_ms=now_ms)
            return {"error_code": ConcurrentTransactions.code, "producer_id": NO_PRODUCER, "producer_epoch": NO_EPOCH}
        begun = transaction.begun(expected, timeout_ms=timeout_ms, new_producer_id=new_producer_id, now_ms=now_ms)
        self._write(begun, outcome)
        return _granted(begun.producer)

    def _add_partitions(self, command: AddPartitions, outcome: TransactionOutcome, *, now_ms: int) -> Fields:
        transaction = self._known(command.transactional_id)
        transaction.check_may_extend(command.producer)
        if transaction.state is not State.ONGOING or not command.partitions <= transaction.partitions:
            extended = transaction.extended(command.partitions, client_version=command.client_version, now_ms=now_ms)
            self._write(extended, outcome)
            if transaction.state is not State.ONGOING:
                self._deadlines.began(extended)
        return {"error_code": 0}

    def _verify_partitions(self, command: VerifyPartitions) -> Fields:
        """Answers with `errors`, a code per partition."""
        transaction = self._known(command.transactional_id)
        transaction.check_producer(command.producer)
        known = transaction.partitions
        return {"error_code": 0, "errors": {one: 0 if one in known else TransactionAbortable.code for one in command.partitions}}

    def _end(self, command: EndTransaction, outcome: TransactionOutcome, *, now_ms: int) -> Fields:
        transactional_id, producer, is_commit, client_version, new_producer_id = command
        transaction = self._known(transactional_id)
        if not transaction.check_may_end(producer, is_commit=is_commit, client_version=client_version):
            return _granted(transaction.producer)
        ended = transaction.ended(is_commit=is_commit, client_version=client_version, new_producer_id=new_producer_id, now_ms=now_ms)
        self._decide(ended, outcome, now_ms=now_ms)
        return _granted(ended.producer)

    # --- markers

    def markers_written(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition], now_ms: int
    ) -> TransactionOutcome:
        """These partitions have the marker of that producer and epoch, or are gone; what comes late, or twice, is fine."""
        outcome = TransactionOutcome()
        transaction = self._transactions.get(transactional_id)
        unmarked = self._unmarked.get(transactional_id)
        if transaction is None or unmarked is None or (transaction.producer_id, transaction.epoch) != producer:
            return outcome
        unmarked.difference_update(partitions)
        if not unmarked:
            del self._unmarked[transactional_id]
            self._write(transaction.completed(now_ms=now_ms), outcome)
        return outcome

    def _decide(self, transaction: Transaction, outcome: TransactionOutcome, *, now_ms: int) -> None:
        """The end of a transaction is decided."""
        self._write(transaction, outcome)
        self._write_markers(transaction, outcome, now_ms=now_ms)

    def _write_markers(self, transaction: Transaction, outcome: TransactionOutcome, *, now_ms: int) -> None:
        if not transaction.partitions:
            self._write(transaction.completed(now_ms=now_ms), outcome)
            return
        self._unmarked[transaction.transactional_id] = set(transaction.partitions)
        outcome.markers.append(
            MarkerBatch(
                transaction.transactional_id,
                Producer(transaction.producer_id, transaction.epoch),
                self._coordinator_epoch,
                transaction.is_commit,
                transaction.client_version,
                transaction.partitions,
            )
        )

    # --- time

    def tick(self, now_ms: int) -> TransactionOutcome:
        """Abort what takes too long, forget what is not used."""
        outcome = TransactionOutcome()
        for transactional_id in self._deadlines.take_due(now_ms):
            transaction = self._transactions.get(transactional_id)
            if transaction is None or transaction.state is not State.ONGOING:
                continue
            if not self._deadlines.is_overdue(transaction, now_ms):
                self._deadlines.began(transaction)
                continue
            logger.info(
                "the transaction of %r was open for longer than its timeout of %d ms: it is aborted, and its producer fenced",
                transactional_id,
                transaction.timeout_ms,
            )
            self._decide(transaction.fenced(now_ms=now_ms), outcome, now_ms=now_ms)
        if self._deadlines.is_expiry_due(now_ms):
            expired = list(self._expired(now_ms))
            for transactional_id in expired:
                del self._transactions[transactional_id]
                outcome.write(encode_tombstone(transactional_id))
            self._deadlines.expired(now_ms, is_more_left=len(expired) == self._settings.max_expired_at_once)
        return outcome

    def next_deadline_ms(self) -> int | None:
        """When to tick next, or earlier; None if nothing can become due."""
        return self._deadlines.next_ms(has_ids=bool(self._transactions))

    def _expired(self, now_ms: int) -> Iterator[str]:
        """Transactional ids that were not used for long, some of them at a time."""
        oldest_ms, count = now_ms - self._settings.transactional_id_expiration_ms, 0
        for transactional_id, transaction in self._transactions.items():
            if transaction.update_ms > oldest_ms or count == self._settings.max_expired_at_once:
                return
            if transaction.state in AT_REST:
                count += 1
                yield transactional_id

    # --- reading

    def describe(self, transactional_id: str) -> Transaction:
        """The transaction of an id; TransactionalIdNotFound if there is none, InvalidRequest if it is empty."""
        if not transactional_id:
            raise InvalidRequest("a transactional id must not be empty")
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise TransactionalIdNotFound(f"nothing is known of transactional id {transactional_id!r}")
        return transaction

    def is_part(self, transactional_id: str, producer: Producer, partition: TopicPartition) -> bool:
        """Whether the producer has a transaction open that the partition is part of: what `VerifyPartitions` would confirm."""
        transaction = self._transactions.get(transactional_id)
        return (
            transaction is not None
            and transaction.state is State.ONGOING
            and (transaction.producer_id, transaction.epoch) == producer
            and partition in transaction.partitions
        )

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._transactions.values())

    # --- inside

    def _known(self, transactional_id: str) -> Transaction:
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise InvalidProducerIdMapping(f"nothing is known of transactional id {transactional_id!r}")
        return transaction

    def _write(self, transaction: Transaction, outcome: TransactionOutcome) -> None:
        """The transaction is another one from now on, and the last that was changed."""
        self._transactions.pop(transaction.transactional_id, None)
        self._transactions[transaction.transactional_id] = transaction
        outcome.write(encode_record(transaction))


def _granted(producer: Producer) -> Fields:
    return {"error_code": 0, "producer_id": producer.producer_id, "producer_epoch": producer.epoch}
