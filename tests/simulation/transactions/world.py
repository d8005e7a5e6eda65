"""A coordinator with its log, partitions, and a network that delays, repeats and loses what is sent over it.

Everything that happens is drawn from one seed. A coordinator decides, and its records are committed a while later: only then answers and
markers leave. A crash takes records that were not committed, or leaves them, and the next coordinator loads what is there.
"""

import random
from collections.abc import Callable
from functools import partial

from millstream.coordinator_shard import CoordinatorRecord
from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import TransactionCoordinatorFenced
from millstream.transactions.commands import EndTransaction, InitProducerId, TransactionCommand
from millstream.transactions.settings import TransactionSettings
from millstream.transactions.shard import MarkerBatch, TransactionOutcome, TransactionShard
from millstream.transactions.transaction import AT_REST, BUMPS_EPOCHS, Producer
from tests.simulation.transactions.partition import SimulatedPartition

PARTITIONS = [TopicPartition("orders", number) for number in range(3)]
SETTINGS = TransactionSettings(abort_interval_ms=1_000)

Answered = Callable[[dict[str, object]], None]


class World:
    """Time, network, coordinator and partitions."""

    def __init__(self, rng: random.Random, *, loss: float = 0.1) -> None:
        self.rng = rng
        self.loss = loss
        self.now_ms = 1_000_000
        self.partitions = {partition: SimulatedPartition() for partition in PARTITIONS}
        self.crashes = 0
        self._messages: list[Callable[[], None]] = []
        self._log: list[CoordinatorRecord] = []
        self._undecided: list[tuple[int, TransactionOutcome]] = []
        """Where the log ended with a decision, and what leaves when it is committed."""
        self._markers: list[tuple[MarkerBatch, TopicPartition]] = []
        """To be sent until they are acknowledged."""
        self._attempts: dict[tuple[MarkerBatch, TopicPartition], int] = {}
        self._next_producer_id = 0
        self._load()

    # --- the network

    def send(self, message: Callable[[], None]) -> None:
        """It arrives some time, perhaps twice, perhaps never."""
        if self.rng.random() >= self.loss:
            self._messages.append(message)
            if self.rng.random() < self.loss:
                self._messages.append(message)

    @property
    def is_crowded(self) -> bool:
        """Whether so much is under way that nothing would come of waiting longer."""
        return len(self._messages) > 30

    def deliver(self) -> None:
        """One of the messages arrives."""
        if self._messages:
            self._messages.pop(self.rng.randrange(len(self._messages)))()

    # --- the coordinator

    def ask(self, command: TransactionCommand, answered: Answered) -> None:
        """Send a command to the coordinator; the answer may be lost as well."""
        self.send(lambda: self.handle(command, answered))

    def handle(self, command: TransactionCommand, answered: Answered) -> None:
        """The coordinator decides a command, and answers when that is committed."""
        if self._shard.needs_producer_id(command) and isinstance(command, InitProducerId | EndTransaction):
            self._next_producer_id += 1
            command = command._replace(new_producer_id=self._next_producer_id)
        self._decide(self._shard.handle(command, answered, self.now_ms))

    def commit(self) -> None:
        """The oldest decision that is not committed yet is."""
        if self._undecided:
            _, outcome = self._undecided.pop(0)
            for waiter, fields in outcome.replies:
                assert callable(waiter)
                self.send(partial(waiter, fields))
            self._markers += [(markers, partition) for markers in outcome.markers for partition in sorted(markers.partitions)]

    def crash(self) -> None:
        """Another coordinator begins; it finds all that was committed, and some of what was not."""
        self.crashes += 1
        committed = self._undecided[0][0] - len(self._undecided[0][1].records) if self._undecided else len(self._log)
        del self._log[self.rng.randint(committed, len(self._log)) :]
        self._undecided, self._markers = [], []
        self._load()

    def pass_time(self, duration_ms: int) -> None:
        """Transactions that take too long are aborted."""
        self.now_ms += duration_ms
        due = self._shard.next_deadline_ms()
        if due is not None and due <= self.now_ms:
            self._decide(self._shard.tick(self.now_ms))

    def send_markers(self) -> None:
        """A marker that is not acknowledged is sent (again)."""
        if self._markers:
            markers, partition = self.rng.choice(self._markers)
            if markers.transaction_version >= BUMPS_EPOCHS:
                self.send(lambda: self._mark(markers, partition))
                return
            # A late one would end the next transaction of a client of version 0: it ends with its connection when it is sent again.
            attempt = self._attempts[markers, partition] = self._attempts.get((markers, partition), 0) + 1

            def arrive() -> None:
                if self._attempts.get((markers, partition)) == attempt:
                    self._attempts[markers, partition] += 1
                    self._mark(markers, partition)

            self.send(arrive)

    @property
    def is_at_rest(self) -> bool:
        """Whether no transaction is open anywhere."""
        are_known = all(transaction.state in AT_REST for transaction in self._shard)
        entries = (entry for partition in self.partitions.values() for entry in partition.producers)
        return are_known and not self._markers and all(entry.transaction_first_offset < 0 for entry in entries)

    def settle(self) -> None:
        """Nothing is lost any more, and time passes, until everything that began has ended."""
        self.loss = 0.0
        for _ in range(20_000):
            if self.is_at_rest and not self._messages and not self._undecided:
                return
            self.deliver()
            self.commit()
            self.send_markers()
            self.pass_time(100)
        raise AssertionError("a transaction never ends")

    # --- inside

    def _load(self) -> None:
        self._shard = TransactionShard(SETTINGS, coordinator_epoch=self.crashes)
        for record in self._log:
            self._shard.apply(record)
        self._decide(self._shard.loaded(self.now_ms))

    def _decide(self, outcome: TransactionOutcome) -> None:
        self._log += outcome.records
        self._undecided.append((len(self._log), outcome))

    def _mark(self, markers: MarkerBatch, partition: TopicPartition) -> None:
        code = self.partitions[partition].write_marker(markers)
        if code == TransactionCoordinatorFenced.code:
            assert markers.coordinator_epoch < self.crashes
            return
        if code and markers.coordinator_epoch == self.crashes:
            assert (markers, partition) not in self._markers, f"{partition} refuses {markers} with {code}"
        if code == 0:
            self.send(lambda: self._marked(markers, partition))

    def _marked(self, markers: MarkerBatch, partition: TopicPartition) -> None:
        if markers.coordinator_epoch == self.crashes and (markers, partition) in self._markers:
            self._markers.remove((markers, partition))
            self._decide(self._shard.markers_written(markers.transactional_id, markers.producer, [partition], self.now_ms))


def producer_of(fields: dict[str, object]) -> Producer:
    """The producer that an answer grants."""
    producer_id, epoch = fields["producer_id"], fields["producer_epoch"]
    assert isinstance(producer_id, int)
    assert isinstance(epoch, int)
    return Producer(producer_id, epoch)
