"""A transaction coordinator in a test: commands in, answers out, and a log that it can be loaded from again."""

from millstream.coordinator_shard import CoordinatorRecord, Fields
from millstream.topic_partition import TopicPartition
from millstream.transactions.commands import AddPartitions, EndTransaction, InitProducerId, TransactionCommand, VerifyPartitions
from millstream.transactions.settings import TransactionSettings
from millstream.transactions.shard import MarkerBatch, TransactionOutcome, TransactionShard
from millstream.transactions.transaction import Producer, State, Transaction

ID = "copier"
MINUTE_MS = 60_000
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Coordinator:
    """The machine of one partition, and what it wrote."""

    def __init__(self, **settings: int) -> None:
        self.settings = TransactionSettings(**settings)
        self.log: list[CoordinatorRecord] = []
        self.markers: list[MarkerBatch] = []
        self.now_ms = 1_700_000_000_000
        self.epoch = 0
        self.next_producer_id = 1000
        self.shard = TransactionShard(self.settings, coordinator_epoch=0)
        self.shard.loaded(self.now_ms)

    @property
    def transaction(self) -> Transaction:
        """What is known of the one transactional id."""
        return self.shard.describe(ID)

    def state(self) -> State:
        """The state of its transaction."""
        return self.transaction.state

    def ask(self, command: TransactionCommand) -> Fields:
        """Hand a command in, with a producer id if it needs one; the answer."""
        if self.shard.needs_producer_id(command) and isinstance(command, InitProducerId | EndTransaction):
            command = command._replace(new_producer_id=self.next_producer_id)
            self.next_producer_id += 1
        outcome = self.shard.handle(command, "waiter", self.now_ms)
        self._take(outcome)
        [(waiter, fields)] = outcome.replies
        assert waiter == "waiter"
        return fields

    def code(self, command: TransactionCommand) -> int:
        """The error code of the answer."""
        code = self.ask(command)["error_code"]
        assert isinstance(code, int)
        return code

    def begin(self, expected: Producer | None = None, *, timeout_ms: int = MINUTE_MS) -> Producer:
        """A producer takes the id; it has to work."""
        fields = self.ask(InitProducerId(ID, timeout_ms, expected))
        assert fields["error_code"] == 0, fields
        return granted(fields)

    def add(self, producer: Producer, *partitions: TopicPartition, version: int = 0) -> int:
        """Partitions join the transaction; the error code."""
        return self.code(AddPartitions(ID, producer, frozenset(partitions or (ONE,)), version))

    def verify(self, producer: Producer, *partitions: TopicPartition) -> Fields:
        """Whether partitions are in the transaction."""
        return self.ask(VerifyPartitions(ID, producer, frozenset(partitions)))

    def end(self, producer: Producer, *, is_commit: bool, version: int = 2) -> Fields:
        """Commit or abort; the answer."""
        return self.ask(EndTransaction(ID, producer, is_commit, version))

    def write_markers(self, *partitions: TopicPartition) -> None:
        """The partitions of the last transaction that ended, or some of them, have its marker."""
        markers = self.markers[-1]
        self._take(self.shard.markers_written(markers.transactional_id, markers.producer, partitions or markers.partitions, self.now_ms))

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass, and what is due happen."""
        end_ms = self.now_ms + duration_ms
        while (due := self.shard.next_deadline_ms()) is not None and due <= end_ms:
            self.now_ms = max(due, self.now_ms)
            self._take(self.shard.tick(self.now_ms))
        self.now_ms = end_ms

    def load_again(self) -> None:
        """Another broker becomes the coordinator, and knows what stands in the log."""
        self.epoch += 1
        self.shard = TransactionShard(self.settings, coordinator_epoch=self.epoch)
        for record in self.log:
            self.shard.apply(record)
        self._take(self.shard.loaded(self.now_ms))

    def _take(self, outcome: TransactionOutcome) -> None:
        self.log += outcome.records
        self.markers += outcome.markers


def granted(fields: Fields) -> Producer:
    """The producer that an answer grants."""
    producer_id, epoch = fields["producer_id"], fields["producer_epoch"]
    assert isinstance(producer_id, int)
    assert isinstance(epoch, int)
    return Producer(producer_id, epoch)
