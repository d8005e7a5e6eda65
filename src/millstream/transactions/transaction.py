"""One transactional id: who has it, in which epoch, and what has become of its transaction. Pure; the rules are those of Kafka 4.2.

    Empty ──────────► Ongoing ──► PrepareCommit ──► CompleteCommit ──┐      the states that the log knows
      ▲                 ▲   └───► PrepareAbort ───► CompleteAbort ───┤      Empty, CompleteX to PrepareAbort: an abort of nothing
      │                 └────────────────────────────────────────────┤
      └──────────────────────────────────────────────────────────────┘      a producer begins (InitProducerId)

A value is never changed: each function returns the one that follows, or raises what the client is answered. PrepareX means decided: from
then on the outcome is fixed, markers are written, and when every partition has its marker the transaction is complete.

Epochs fence. A producer that begins gets the next one, and so does one whose transaction was aborted for it. With clients of transaction
version 2 (KIP-890) each end of a transaction brings the next epoch as well, in which the markers are written, so that nothing that is
delayed touches the next transaction. When the epochs of a producer id are used up, another id follows.

Kafka also has PrepareEpochFence, in which it is between two writes of one decision; a decision is one write here. Dead is never written.
"""

from enum import IntEnum
from typing import Final, NamedTuple, Self

from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import ConcurrentTransactions, InvalidProducerIdMapping, InvalidTxnState, ProducerFenced

NO_PRODUCER: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
LAST_EPOCH: Final = 2**15 - 2
"""The highest epoch that a producer is given: one more is needed to fence it."""
BUMPS_EPOCHS: Final = 2
"""The `transaction.version` of clients from which on each transaction ends with another epoch; that of this broker, too."""


class State(IntEnum):
    """Where a transaction is; the numbers are those of the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """What Kafka's tools call it."""
        return self.name.title().replace("_", "")


PREPARED: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
AT_REST: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


class Producer(NamedTuple):
    """A producer id and an epoch."""

    producer_id: int
    epoch: int


class Transaction(NamedTuple):
    """A transactional id."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    """When the transaction began."""
    update_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER
    """The producer id before this one, whose epochs were used up."""
    next_producer_id: int = NO_PRODUCER
    """The producer id that follows when the transaction is complete."""
    last_epoch: int = NO_EPOCH
    """The epoch in which the producer itself asked for this one, of the former id if that was used up: so it may ask once more. Not written
    to the log."""
    client_version: int = 0
    """The transaction version of the client that ended the last transaction, or began this one."""

    @property
    def is_commit(self) -> bool:
        """Whether the transaction was decided to be committed."""
        return self.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether no producer can be given another epoch of this producer id."""
        return self.epoch >= LAST_EPOCH

    @property
    def is_closed(self) -> bool:
        """Whether the last producer was fenced with the last epoch of its producer id: the next one has to begin with another id."""
        return self.epoch > LAST_EPOCH and self.next_producer_id == NO_PRODUCER

    @property
    def producer(self) -> Producer:
        """Who has the transactional id; in a moment, if the epochs of the present producer id are used up."""
        return Producer(self.producer_id, self.epoch) if self.next_producer_id == NO_PRODUCER else Producer(self.next_producer_id, 0)

    # --- a producer begins

    def needs_id_to_begin(self, expected: Producer | None) -> bool:
        """Whether `begun` needs a new producer id."""
        is_owner = expected is None or expected.epoch in (self.epoch, self.last_epoch)
        return self.state in AT_REST and self.is_epoch_exhausted and is_owner

    def check_may_begin(self, expected: Producer | None) -> None:
        """Raise if the producer that says who it was (KIP-360) has lost its id to another, or must wait for the end of a transaction."""
        self._check_not_ending()
        if expected is not None and not (
            self.epoch == NO_EPOCH
            or expected.producer_id == self.producer_id
            or (expected.producer_id == self.previous_producer_id and expected.epoch >= LAST_EPOCH)
        ):
            raise ProducerFenced(f"transactional id {self.transactional_id!r} belongs to another producer by now")

    def begun(self, expected: Producer | None, *, timeout_ms: int, new_producer_id: int | None, now_ms: int) -> Self:
        """A producer takes the id over, at rest: with the next epoch, or with another producer id."""
        assert self.state in AT_REST
        fresh = self._replace(
            state=State.EMPTY,
            partitions=frozenset(),
            timeout_ms=timeout_ms,
            start_ms=NO_TIME,
            update_ms=now_ms,
            next_producer_id=NO_PRODUCER,
        )
        if self.needs_id_to_begin(expected):
            if new_producer_id is None:
                raise ConcurrentTransactions(f"{self.transactional_id!r} needs another producer id: ask again")
            last_epoch = NO_EPOCH if expected is None else self.epoch
            return fresh._replace(producer_id=new_producer_id, previous_producer_id=self.producer_id, epoch=0, last_epoch=last_epoch)
        if expected is None:
            return fresh._replace(epoch=self.epoch + 1, last_epoch=NO_EPOCH)
        if self.epoch in (NO_EPOCH, expected.epoch):
            return fresh._replace(epoch=self.epoch + 1, last_epoch=self.epoch)
        if expected.epoch == self.last_epoch:
            return fresh  # It asked before, and the answer was lost.
        raise ProducerFenced(f"{self.transactional_id!r} is in epoch {self.epoch}, the producer had epoch {expected.epoch}")

    # --- the transaction grows

    def check_may_extend(self, producer: Producer) -> None:
        """Raise unless this producer has the id and can add partitions to its transaction."""
        self._check_not_ending()
        self.check_producer(producer)

    def check_producer(self, producer: Producer) -> None:
        """Raise unless this producer has the id and can write in a transaction."""
        if producer.producer_id != self.producer_id:
            raise InvalidProducerIdMapping(f"{self.transactional_id!r} has producer id {self.producer_id}, not {producer.producer_id}")
        if producer.epoch != self.epoch or self.is_closed:
            raise ProducerFenced(f"{self.transactional_id!r} is in epoch {self.epoch}, the producer has epoch {producer.epoch}")
        self._check_not_ending()

    def _check_not_ending(self) -> None:
        """Raise if markers are being written. Asked before anything else: the producer may have its next epoch, or producer id, already."""
        if self.state in PREPARED:
            raise ConcurrentTransactions(f"the last transaction of {self.transactional_id!r} is being ended")

    def extended(self, partitions: frozenset[TopicPartition], *, client_version: int, now_ms: int) -> Self:
        """The transaction with more partitions; it begins with the first."""
        is_new = self.state is not State.ONGOING
        return self._replace(
            state=State.ONGOING,
            partitions=partitions if is_new else self.partitions | partitions,
            start_ms=now_ms if is_new else self.start_ms,
            update_ms=now_ms,
            client_version=client_version,
        )

    # --- the transaction ends

    def is_bumped_from(self, epoch: int) -> bool:
        """Whether a client of version 2 that ended its transaction in that epoch now has this one: its request comes once more."""
        return self.epoch == epoch + 1

    def is_rotated_from(self, producer: Producer) -> bool:
        """The same where the epochs were used up by that end."""
        return producer == (self.previous_producer_id, LAST_EPOCH) and self.epoch == 0

    def needs_id_to_end(self, *, client_version: int) -> bool:
        """Whether `ended` needs a new producer id."""
        return client_version >= BUMPS_EPOCHS and self.is_epoch_exhausted and not self.is_closed and self.state not in PREPARED

    def check_may_end(self, producer: Producer, *, is_commit: bool, client_version: int) -> bool:
        """Whether there is something to end; False if it was ended just so. Raises if it cannot be ended so."""
        is_bumping = client_version >= BUMPS_EPOCHS
        if is_bumping:
            self._check_not_ending()
        is_rotated = is_bumping and self.is_rotated_from(producer)
        is_repeated = is_rotated or (is_bumping and self.is_bumped_from(producer.epoch))
        if producer.producer_id != self.producer_id and not is_rotated:
            raise InvalidProducerIdMapping(f"{self.transactional_id!r} has producer id {self.producer_id}, not {producer.producer_id}")
        is_valid = producer.epoch == self.epoch or (is_repeated and self.state not in (State.ONGOING, State.EMPTY))
        if not is_valid or self.is_closed:
            raise ProducerFenced(f"{self.transactional_id!r} is in epoch {self.epoch}, the producer has epoch {producer.epoch}")
        if self.state is State.ONGOING:
            return True
        if self.state in PREPARED and is_commit == self.is_commit:
            raise ConcurrentTransactions(f"the last transaction of {self.transactional_id!r} is being ended")
        if self.state in AT_REST and is_bumping and not is_repeated and not is_commit:
            return True  # An abort of nothing: the producer does not know whether it has written anything.
        if self.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT) and is_commit == self.is_commit and (is_repeated or not is_bumping):
            return False
        raise InvalidTxnState(
            f"the transaction of {self.transactional_id!r} is {self.state.title}: it cannot be {'committed' if is_commit else 'aborted'}"
        )

    def ended(self, *, is_commit: bool, client_version: int, new_producer_id: int | None, now_ms: int) -> Self:
        """What becomes of the transaction is decided; markers are to be written."""
        decided = self._replace(
            state=State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT,
            partitions=self.partitions if self.state is State.ONGOING else frozenset(),
            start_ms=self.start_ms if self.state is State.ONGOING else now_ms,
            update_ms=now_ms,
            client_version=client_version,
        )
        if client_version < BUMPS_EPOCHS:
            return decided
        next_producer_id = NO_PRODUCER
        if self.is_epoch_exhausted:
            if new_producer_id is None:
                raise ConcurrentTransactions(f"{self.transactional_id!r} needs another producer id: ask again")
            next_producer_id = new_producer_id
        return decided._replace(epoch=self.epoch + 1, last_epoch=self.epoch, next_producer_id=next_producer_id)

    def fenced(self, *, now_ms: int) -> Self:
        """The transaction is aborted and its producer fenced: it took too long, or another one begins. An epoch is always left for that."""
        assert self.state is State.ONGOING
        return self._replace(
            state=State.PREPARE_ABORT,
            epoch=self.epoch + 1,
            last_epoch=self.epoch,
            update_ms=now_ms,
            client_version=BUMPS_EPOCHS,
        )

    def completed(self, *, now_ms: int) -> Self:
        """Every partition has its marker."""
        assert self.state in PREPARED
        done = self._replace(
            state=State.COMPLETE_COMMIT if self.is_commit else State.COMPLETE_ABORT, partitions=frozenset(), update_ms=now_ms
        )
        if self.next_producer_id == NO_PRODUCER:
            return done
        return done._replace(
            producer_id=self.next_producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER,
            epoch=0,
        )
