"""A transactional producer: begins, writes transactions and ends them, and asks again when no answer comes. It may be a zombie."""

from collections.abc import Callable, Collection, Generator
from functools import partial
from typing import NamedTuple

from millstream.errors import CoordinatorLoadInProgress, OutOfOrderSequenceNumber
from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import ConcurrentTransactions, InvalidTxnState
from millstream.transactions.commands import AddPartitions, EndTransaction, InitProducerId, TransactionCommand, VerifyPartitions
from millstream.transactions.transaction import BUMPS_EPOCHS, Producer
from tests.simulation.transactions.partition import Reply
from tests.simulation.transactions.world import PARTITIONS, Answered, World, producer_of

RETRIED = {ConcurrentTransactions.code, CoordinatorLoadInProgress.code}
TIMEOUT_MS = 60_000
GAVE_UP = -2
"""No answer to a batch came in time: the transaction can only be aborted, and the next one begin with another epoch."""

Steps = Generator[None, dict[str, object] | None, dict[str, object]]


class Sent(NamedTuple):
    """What a client knows of one of its transactions."""

    tag: str
    acknowledged: list[TopicPartition]
    """The partition of each batch that was acknowledged."""
    outcome: bool | None
    """Whether it was committed or aborted; None if the client does not know."""


class Client:
    """One life of a producer; `version` is the transaction version that it speaks."""

    def __init__(self, world: World, transactional_id: str, name: str, *, version: int, transactions: int, is_patient: bool = True) -> None:
        self.world = world
        self.name = name
        self.sent: list[Sent] = []
        self.error = 0
        """Why it gave up."""
        self.is_done = False
        self._id = transactional_id
        self._version = version
        self._count = transactions
        self._is_patient = is_patient
        self._sequences: dict[TopicPartition, int] = {}
        self._request = 0
        self._arrived: set[int] = set()
        self._run = self._live()
        self._go_on(None)

    def nudge(self) -> None:
        """It has waited long enough for an answer."""
        if not self.is_done:
            self._go_on(None)

    def _go_on(self, answer: dict[str, object] | None) -> None:
        try:
            self._request += 1
            self._run.send(answer)
        except StopIteration:
            self.is_done = True

    def _answered(self, request: int, fields: dict[str, object]) -> None:
        if request == self._request and not self.is_done:
            self._go_on(fields)

    def _live(self) -> Generator[None, dict[str, object] | None, None]:
        producer = yield from self._begin()
        for number in range(self._count):
            if producer is None:
                return
            producer = yield from self._transact(producer, f"{self.name}-{number}")

    def _begin(self) -> Generator[None, dict[str, object] | None, Producer | None]:
        # A late one would fence the client itself, in Kafka as well.
        fields = yield from self._until_answered(partial(self._ask_once, InitProducerId(self._id, TIMEOUT_MS)))
        self.error = int(str(fields["error_code"]))
        return None if self.error else producer_of(fields)

    def _transact(self, producer: Producer, tag: str) -> Generator[None, dict[str, object] | None, Producer | None]:
        rng = self.world.rng
        acknowledged: list[TopicPartition] = []
        self.sent.append(Sent(tag, acknowledged, None))
        for partition in rng.choices(PARTITIONS, k=rng.randint(1, 5)):
            if not (yield from self._produce(producer, partition, tag)):
                break
            acknowledged.append(partition)
        has_given_up = self.error == GAVE_UP
        if self.error and not has_given_up:
            return None
        is_commit = rng.random() < 0.7 and not has_given_up
        command = EndTransaction(self._id, producer, is_commit, self._version)
        # A late one would end the next transaction of a client of version 0: that is why there is version 2 (KIP-890).
        ask = self.world.ask if self._version >= BUMPS_EPOCHS else self._ask_once
        fields = yield from self._until_answered(partial(ask, command))
        self.error = int(str(fields["error_code"]))
        if self.error:
            return None
        self.sent[-1] = Sent(tag, acknowledged, is_commit)
        if self._version < BUMPS_EPOCHS and not has_given_up:
            return producer
        self._sequences.clear()
        return producer_of(fields) if self._version >= BUMPS_EPOCHS else (yield from self._begin())

    def _ask_once(self, command: TransactionCommand, answered: Answered) -> None:
        """Ask the coordinator by a request that arrives at most once, and not after the client has given it up with its connection."""
        request = self._request

        def arrive() -> None:
            if request == self._request and request not in self._arrived:
                self._arrived.add(request)
                self.world.handle(command, answered)

        self.world.send(arrive)

    def _produce(self, producer: Producer, partition: TopicPartition, tag: str) -> Generator[None, dict[str, object] | None, bool]:
        world, partitions = self.world, frozenset({partition})
        if self._version < BUMPS_EPOCHS:
            added = yield from self._until_answered(lambda answered: world.ask(AddPartitions(self._id, producer, partitions), answered))
            self.error = int(str(added["error_code"]))
            if self.error:
                return False
        sequence = self._sequences.get(partition, 0)

        def ask_coordinator(reply: Reply) -> None:
            if self._version >= BUMPS_EPOCHS:
                command = AddPartitions(self._id, producer, partitions, self._version)
                world.ask(command, lambda fields: reply(int(str(fields["error_code"]))))
            else:
                world.ask(VerifyPartitions(self._id, producer, partitions), lambda fields: reply(_verified(fields, partition)))

        def send(answered: Answered) -> None:
            def reply(code: int) -> None:
                world.send(lambda: answered({"error_code": code}))

            world.send(lambda: world.partitions[partition].append(producer, sequence, tag, ask_coordinator, reply))

        retried = {InvalidTxnState.code, OutOfOrderSequenceNumber.code}
        fields = yield from self._until_answered(send, retried=retried, is_patient=self._is_patient)
        self.error = int(str(fields["error_code"]))
        if not self.error:
            self._sequences[partition] = sequence + 1
        return not self.error

    def _until_answered(self, send: Callable[[Answered], None], retried: Collection[int] = (), *, is_patient: bool = True) -> Steps:
        """Send, and send again until there is an answer that is no invitation to ask again; or until patience is lost."""
        while True:
            send(partial(self._answered, self._request))
            fields = yield
            if not is_patient and self.world.rng.random() < 0.6:
                return {"error_code": GAVE_UP}
            if fields is not None and fields["error_code"] not in RETRIED and fields["error_code"] not in retried:
                return fields


def _verified(fields: dict[str, object], partition: TopicPartition) -> int:
    errors = fields.get("errors")
    return int(str(errors[partition] if isinstance(errors, dict) else fields["error_code"]))
