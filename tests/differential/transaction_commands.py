"""Random commands to the transaction coordinator of Apache Kafka, and the same to our machine.

A command names producers by what the coordinator has granted: the present one, or one with an epoch beside it. Both sides are asked again
while the last transaction is being ended; the machine's markers are written at once.
"""

import random
from typing import Final, NamedTuple

from kio.serial.errors import OutOfBoundValue

from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import ConcurrentTransactions
from millstream.transactions.commands import AddPartitions, EndTransaction, InitProducerId
from millstream.transactions.transaction import BUMPS_EPOCHS, Producer
from tests.brokers import KafkaBroker
from tests.connection import Connection
from tests.machines.transaction_script import Coordinator
from tests.waiting import wait_until

INIT_PRODUCER_ID: Final = 22
ADD_PARTITIONS_TO_TXN: Final = 24
END_TXN: Final = 26
DESCRIBE_TRANSACTIONS: Final = 65
IDS: Final = ("one", "two", "three", "four")
SEED: Final = 17
STEPS: Final = 150
TIMEOUT_MS: Final = 600_000
NO_PRODUCER: Final = Producer(-1, -1)

Command = InitProducerId | AddPartitions | EndTransaction
Answer = tuple[int, int]
"""Error code and, where one is granted, the epoch; else -1."""


class Decided(NamedTuple):
    """A command, whose producer is that of the machine, and what Kafka answered."""

    command: Command
    code: int
    epoch: int


def ask_kafka(kafka: KafkaBroker, *, topic: str) -> list[Decided]:
    """What Kafka, whose coordinator is there, answers random commands."""
    rng = random.Random(SEED)
    decided = []
    present = dict.fromkeys(IDS, NO_PRODUCER)
    with kafka.connect() as connection:
        for name in IDS:
            command: Command = InitProducerId(name, TIMEOUT_MS)
            code, epoch, present[name] = _ask(connection, command)
            decided.append(Decided(command, code, epoch))
        for _ in range(STEPS):
            name = rng.choice(IDS)
            command = _draw(rng, name, present[name], topic)
            code, epoch, producer = _ask(connection, command)
            # Producer ids differ: those of the machine follow from the order in which transactional ids came.
            decided.append(Decided(_renumbered(command, 1000 + IDS.index(name)), code, epoch))
            if producer != NO_PRODUCER:
                present[name] = producer
    return decided


def ask_machine(coordinator: Coordinator, command: Command) -> Answer:
    """What our machine answers."""
    while True:
        written = len(coordinator.markers)
        fields = coordinator.ask(command)
        if len(coordinator.markers) > written:
            coordinator.write_markers()
        if fields["error_code"] != ConcurrentTransactions.code:
            break
    is_add = isinstance(command, AddPartitions)
    epoch = -1 if is_add or (isinstance(command, EndTransaction) and command.client_version < BUMPS_EPOCHS) else fields["producer_epoch"]
    return int(str(fields["error_code"])), int(str(epoch))


def _draw(rng: random.Random, name: str, present: Producer, topic: str) -> Command:
    epoch = present.epoch + rng.choices([0, -1, 1], [14, 4, 1])[0]
    producer = Producer(present.producer_id, epoch)
    kind = rng.random()
    if kind < 0.15:
        return InitProducerId(name, TIMEOUT_MS, rng.choice([None, producer if epoch >= 0 else None]))
    if kind < 0.5:
        return AddPartitions(name, producer, frozenset({TopicPartition(topic, 0)}))
    return EndTransaction(name, producer, is_commit=rng.random() < 0.5, client_version=rng.choice([0, 2, 2]))


def _renumbered(command: Command, producer_id: int) -> Command:
    if not isinstance(command, InitProducerId):
        return command._replace(producer=command.producer._replace(producer_id=producer_id))
    return command if command.expected is None else command._replace(expected=command.expected._replace(producer_id=producer_id))


def _ask(connection: Connection, command: Command) -> tuple[int, int, Producer]:
    """Error code, epoch and what was granted, when no transaction is being ended any more."""
    found = (ConcurrentTransactions.code, -1, NO_PRODUCER)

    def is_answered() -> bool:
        nonlocal found
        found = _ask_once(connection, command)
        return found[0] != ConcurrentTransactions.code

    wait_until(is_answered, f"an answer to {command}")
    if isinstance(command, EndTransaction):
        names = {"transactional_ids": [command.transactional_id]}
        wait_until(lambda: not _is_ending(connection, names), "the end of a transaction")
    return found


def _is_ending(connection: Connection, names: dict[str, list[str]]) -> bool:
    try:
        state = connection.ask(DESCRIBE_TRANSACTIONS, 0, names).transaction_states[0].transaction_state
    except OutOfBoundValue:
        return False  # kio does not read the time of a transaction that has not begun
    return bool(state.startswith("Prepare"))


def _ask_once(connection: Connection, command: Command) -> tuple[int, int, Producer]:
    match command:
        case InitProducerId(transactional_id, timeout_ms, expected):
            was = expected or NO_PRODUCER
            fields = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms, "producer_id": was.producer_id,
                      "producer_epoch": was.epoch}  # fmt: skip
            answer = connection.ask(INIT_PRODUCER_ID, 5, fields)
        case AddPartitions(transactional_id, producer, partitions):
            [(topic, partition)] = partitions
            fields = {"v3_and_below_transactional_id": transactional_id, "v3_and_below_producer_id": producer.producer_id,
                      "v3_and_below_producer_epoch": producer.epoch,
                      "v3_and_below_topics": [{"name": topic, "partitions": [partition]}]}  # fmt: skip
            answer = connection.ask(ADD_PARTITIONS_TO_TXN, 3, fields)
            return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code), -1, NO_PRODUCER
        case EndTransaction(transactional_id, producer, is_commit, client_version):
            fields = {"transactional_id": transactional_id, "producer_id": producer.producer_id, "producer_epoch": producer.epoch,
                      "committed": is_commit}  # fmt: skip
            version = 5 if client_version >= BUMPS_EPOCHS else 4
            answer = connection.ask(END_TXN, version, fields)
            if version < 5:
                return int(answer.error_code), -1, NO_PRODUCER
    code = int(answer.error_code)
    granted = NO_PRODUCER if code else Producer(answer.producer_id, answer.producer_epoch)
    return code, granted.epoch, granted
