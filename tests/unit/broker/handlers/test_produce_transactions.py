"""Produce with transactional batches: the first of a transaction waits for the coordinator, the others are appended at once."""

from typing import Any

import pytest

from millstream.broker.handlers.produce.produce import ProduceFamily
from millstream.cluster.replicas import Replicas
from millstream.errors import (
    CoordinatorLoadInProgress,
    InvalidProducerEpoch,
    KafkaError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    TransactionalIdAuthorizationFailed,
)
from millstream.log.transactions.marker import Marker
from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
)
from millstream.transactions.commands import AddPartitions, VerifyPartitions
from millstream.transactions.transaction import Producer as TransactionProducer
from millstream.wire.api import ApiKey
from millstream.wire.batch import TRANSACTIONAL
from millstream.wire.records import ProducerStamp
from tests.batches import encode_batch
from tests.manual_clock import ManualClock
from tests.unit.broker.handlers.desk import Desk
from tests.unit.broker.produce_family import AgreeingCoordinator, produce_family
from tests.unit.cluster.hosting import NOW_MS, follow, topic_state, view_of

VERIFYING, ADDING = 11, 12


@pytest.fixture
def coordinator() -> AgreeingCoordinator:
    return AgreeingCoordinator()


@pytest.fixture
async def family(replicas: Replicas, coordinator: AgreeingCoordinator) -> ProduceFamily:
    await follow(replicas, view_of(topic_state(partitions=2)))
    return produce_family(replicas, ManualClock(NOW_MS), coordinator=coordinator)


def batch(sequence: int, *, producer_id: int = 7, epoch: int = 0, flags: int = TRANSACTIONAL) -> bytes:
    return encode_batch([b"v"], timestamp=NOW_MS, attributes=flags, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


class Producer:
    """Sends batches by partition, and waits for the answer."""

    def __init__(self, family: ProduceFamily, desk: Desk, *, version: int = ADDING, transactional_id: str | None = "t") -> None:
        self._family = family
        self._desk = desk
        self.version = version
        self.transactional_id = transactional_id

    async def begin(self, *batches: tuple[int, bytes]) -> Any:
        """The answer, if it comes at once."""
        data = [{"index": index, "records": records} for index, records in batches]
        topics = [{"name": "orders", "partition_data": data}]
        fields = {"transactional_id": self.transactional_id, "acks": -1, "timeout_ms": 30_000, "topic_data": topics}
        self._desk.pending.clear()
        return await self._desk.ask(self._family.produce, ApiKey.PRODUCE, self.version, **fields)

    async def end(self) -> list[int]:
        """The codes of the answer that comes later."""
        return codes(await self._desk.later(ApiKey.PRODUCE, self.version))

    async def send(self, *batches: tuple[int, bytes]) -> list[int]:
        """The codes of the answer."""
        answer = await self.begin(*batches)
        return await self.end() if answer is None else codes(answer)


def codes(answer: Any) -> list[int]:
    return [one.error_code for topic in answer.responses for one in topic.partition_responses]


@pytest.mark.parametrize(("version", "question"), [(VERIFYING, VerifyPartitions), (ADDING, AddPartitions)])
async def test_the_coordinator_is_asked_once_per_transaction(
    family: ProduceFamily, desk: Desk, coordinator: AgreeingCoordinator, version: int, question: type
) -> None:
    producer = Producer(family, desk, version=version)
    assert await producer.send((0, batch(0)), (1, batch(0))) == [0, 0]
    [asked] = coordinator.questions
    assert isinstance(asked, question)
    assert (asked.transactional_id, asked.producer, {one.partition for one in asked.partitions}) == ("t", (7, 0), {0, 1})
    assert codes(await producer.begin((0, batch(1)))) == [0]
    assert codes(await producer.begin((0, batch(1)), (1, batch(1)))) == [0, 0]
    assert len(coordinator.questions) == 1


@pytest.mark.parametrize(
    ("version", "refusal", "answer"),
    [
        (10, TransactionAbortable, InvalidTxnState),
        (11, TransactionAbortable, TransactionAbortable),
        (12, TransactionAbortable, TransactionAbortable),
        (11, ConcurrentTransactions, NotEnoughReplicas),
        (12, ConcurrentTransactions, ConcurrentTransactions),
        (12, CoordinatorLoadInProgress, NotEnoughReplicas),
        (12, ProducerFenced, InvalidProducerEpoch),
        (12, InvalidProducerIdMapping, InvalidProducerIdMapping),
    ],
)
async def test_what_the_coordinator_refuses_is_answered_in_words_that_the_client_knows(
    family: ProduceFamily,
    replicas: Replicas,
    desk: Desk,
    coordinator: AgreeingCoordinator,
    version: int,
    refusal: type[KafkaError],
    answer: type[KafkaError],
) -> None:
    coordinator.code = refusal.code
    assert await Producer(family, desk, version=version).send((0, batch(0))) == [answer.code]
    assert replicas.partition("orders", 0).log.log_end_offset == 0
    assert (len(coordinator.questions) > 1) == (answer is ConcurrentTransactions)


async def test_a_request_without_a_transactional_id_brings_no_transactional_batch(family: ProduceFamily, desk: Desk) -> None:
    assert await Producer(family, desk).send((0, batch(0))) == [0]
    stranger = Producer(family, desk, transactional_id=None)
    refused = TransactionalIdAuthorizationFailed.code
    assert await stranger.send((0, batch(1))) == [refused]
    assert await stranger.send((0, batch(-1, producer_id=-1, epoch=-1))) == [refused]
    assert await stranger.send((0, batch(1)), (1, batch(0, producer_id=8, flags=0))) == [refused, refused]
    assert await Producer(family, desk).send((1, batch(0, producer_id=8, flags=0))) == [0]


async def test_the_transactional_batches_of_a_request_are_of_one_producer(family: ProduceFamily, desk: Desk) -> None:
    wrong = InvalidProducerIdMapping.code
    producer = Producer(family, desk)
    assert await producer.send((0, batch(0)), (1, batch(0, producer_id=8))) == [wrong, wrong]
    assert await producer.send((0, batch(0)), (1, batch(0, epoch=1))) == [wrong, wrong]
    assert await producer.send((0, batch(0)), (1, batch(0, producer_id=8, flags=0))) == [0, 0]


async def test_a_marker_that_comes_while_the_coordinator_is_asked_leaves_no_transaction_open(
    family: ProduceFamily, replicas: Replicas, desk: Desk, coordinator: AgreeingCoordinator
) -> None:
    coordinator.is_answering = False
    producer = Producer(family, desk)
    assert await producer.begin((0, batch(0))) is None
    leader = replicas.partition("orders", 0).as_leader()
    leader.append_marker(Marker(is_commit=False, coordinator_epoch=0), ProducerStamp(7, 1), transaction_version=2, now_ms=NOW_MS)
    coordinator.answer()
    assert await producer.end() == [InvalidTxnState.code]
    assert leader.log.log_end_offset == leader.last_stable_offset == 1


async def test_a_batch_that_was_confirmed_for_a_former_leader_is_sent_again(
    family: ProduceFamily, replicas: Replicas, desk: Desk, coordinator: AgreeingCoordinator
) -> None:
    coordinator.is_answering = False
    producer = Producer(family, desk)
    assert await producer.begin((0, batch(0))) is None
    partition = replicas.partition("orders", 0)
    partition.apply(partition.state._replace(leader_epoch=9, partition_epoch=9))
    coordinator.answer()
    assert await producer.end() == [NotLeaderOrFollower.code]
    coordinator.is_answering = True
    assert await producer.send((0, batch(0))) == [0]


async def test_a_batch_does_not_overtake_one_that_could_not_be_verified(
    family: ProduceFamily, desk: Desk, coordinator: AgreeingCoordinator
) -> None:
    producer = Producer(family, desk, version=VERIFYING)
    coordinator.code = CoordinatorLoadInProgress.code
    assert await producer.send((0, batch(3))) == [NotEnoughReplicas.code]
    coordinator.code = 0
    assert await producer.send((0, batch(4))) == [OutOfOrderSequenceNumber.code]
    assert await producer.send((0, batch(3))) == [0]
    assert await producer.send((0, batch(4))) == [0]


async def test_with_epochs_of_their_own_transactions_begin_with_sequence_0(family: ProduceFamily, replicas: Replicas, desk: Desk) -> None:
    producer = Producer(family, desk)
    assert await producer.send((0, batch(5))) == [OutOfOrderSequenceNumber.code]
    assert await producer.send((0, batch(0))) == [0]
    leader = replicas.partition("orders", 0).as_leader()
    leader.append_marker(Marker(is_commit=True, coordinator_epoch=0), ProducerStamp(7, 1), transaction_version=2, now_ms=NOW_MS)
    assert await producer.send((0, batch(1, epoch=1))) == [OutOfOrderSequenceNumber.code]
    assert await producer.send((0, batch(0, epoch=1))) == [0]
    assert await producer.send((0, batch(1, epoch=0))) == [InvalidProducerEpoch.code]


async def test_requests_of_a_run_that_have_to_wait_are_appended_in_their_order(
    family: ProduceFamily, replicas: Replicas, desk: Desk, coordinator: AgreeingCoordinator
) -> None:
    coordinator.is_answering = False
    producer = Producer(family, desk)
    for sequence in range(3):
        desk.pending.clear()
        assert await producer.begin((0, batch(sequence))) is None
    coordinator.answer()
    assert await producer.end() == [0]
    log = replicas.partition("orders", 0).log
    assert (log.log_end_offset, log.producers.get(7).last_sequence) == (3, 2)  # type: ignore[union-attr]


async def test_records_are_looked_into_and_the_transaction_verified(
    replicas: Replicas, desk: Desk, coordinator: AgreeingCoordinator
) -> None:
    await follow(replicas, view_of(topic_state(check_records="true")))
    family = produce_family(replicas, ManualClock(NOW_MS), coordinator=coordinator)
    producer = Producer(family, desk)
    assert await producer.send((0, batch(0))) == [0]
    assert await producer.send((0, batch(1))) == [0]
    assert len(coordinator.questions) == 1


@pytest.mark.parametrize("version", [VERIFYING, ADDING])
async def test_a_partition_that_this_broker_knows_as_part_needs_no_question(
    family: ProduceFamily, replicas: Replicas, desk: Desk, coordinator: AgreeingCoordinator, version: int
) -> None:
    coordinator.known.add(("t", TransactionProducer(7, 0), TopicPartition("orders", 0)))
    producer = Producer(family, desk, version=version)
    assert codes(await producer.begin((0, batch(0)))) == [0]
    assert codes(await producer.begin((0, batch(1)))) == [0]
    assert coordinator.questions == []
    assert replicas.partition("orders", 0).as_leader().has_open_transaction(7, 0)
    assert await producer.send((1, batch(0))) == [0]
    assert len(coordinator.questions) == 1


async def test_a_batch_that_is_known_as_part_and_refused_by_the_log_is_refused_alone(
    family: ProduceFamily, desk: Desk, coordinator: AgreeingCoordinator
) -> None:
    coordinator.known.add(("t", TransactionProducer(7, 0), TopicPartition("orders", 0)))
    producer = Producer(family, desk, version=ADDING)
    assert await producer.send((0, batch(3)), (0, batch(0))) == [OutOfOrderSequenceNumber.code, 0]
