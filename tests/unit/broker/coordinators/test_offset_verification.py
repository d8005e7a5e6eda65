"""Offsets in a transaction: its coordinator is asked before the first ones become pending in a partition."""

import asyncio

import pytest

from millstream.broker.coordinators.offset_transactions import Transaction
from millstream.broker.coordinators.offset_verification import OffsetVerification
from millstream.broker.transactions.verification import NETWORK_EXCEPTION
from millstream.cluster.partition import Partition
from millstream.errors import CoordinatorLoadInProgress, InvalidProducerEpoch, KafkaError, NotLeaderOrFollower
from millstream.log.directories.manager import LogManager
from millstream.log.transactions.marker import Marker
from millstream.transaction_errors import InvalidTxnState, ProducerFenced, TransactionAbortable
from millstream.transactions.commands import AddPartitions, VerifyPartitions
from millstream.wire.records import ProducerStamp
from tests.unit.broker.produce_family import AgreeingCoordinator
from tests.unit.cluster.hosting import LED_BY_1, NOW_MS, host
from tests.unit.cluster.test_leader_transactions import send

TRANSACTION = Transaction("t", 7, 0)
OLD, ABORTABLE, ADDING = 3, 4, 5


@pytest.fixture
def partition(logs: LogManager) -> Partition:
    return host(logs, topic="__consumer_offsets")


async def verified(partition: Partition, coordinator: AgreeingCoordinator, *, version: int = ADDING) -> KafkaError | None:
    """What comes of a question that is answered at once."""
    answer: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
    verification = OffsetVerification(coordinator.verification(lambda work: work.close()))
    verification.verify(partition, TRANSACTION, version=version, done=answer.set_result)
    return await asyncio.wait_for(answer, 20)


@pytest.mark.parametrize(("version", "question"), [(OLD, VerifyPartitions), (ABORTABLE, VerifyPartitions), (ADDING, AddPartitions)])
async def test_the_coordinator_is_asked_until_the_transaction_is_open_here(partition: Partition, version: int, question: type) -> None:
    coordinator = AgreeingCoordinator()
    assert await verified(partition, coordinator, version=version) is None
    assert [type(one) for one in coordinator.questions] == [question]
    send(partition, 7, sequence=-1)
    assert await verified(partition, coordinator, version=version) is None
    assert len(coordinator.questions) == 1


@pytest.mark.parametrize(
    ("version", "code", "answer"),
    [
        (OLD, TransactionAbortable.code, InvalidTxnState),
        (ABORTABLE, TransactionAbortable.code, TransactionAbortable),
        (ADDING, ProducerFenced.code, InvalidProducerEpoch),
        (ADDING, NETWORK_EXCEPTION, CoordinatorLoadInProgress),
    ],
)
async def test_what_the_coordinator_refuses_is_handed_on(partition: Partition, version: int, code: int, answer: type[KafkaError]) -> None:
    coordinator = AgreeingCoordinator()
    coordinator.code = code
    assert type(await verified(partition, coordinator, version=version)) is answer


async def test_offsets_do_not_become_pending_after_the_marker(partition: Partition) -> None:
    coordinator = AgreeingCoordinator()
    coordinator.is_answering = False
    asking = asyncio.ensure_future(verified(partition, coordinator))
    await asyncio.sleep(0)
    marker = Marker(is_commit=False, coordinator_epoch=0)
    partition.as_leader().append_marker(marker, ProducerStamp(7, 1), transaction_version=2, now_ms=NOW_MS)
    coordinator.answer()
    assert isinstance(await asking, InvalidTxnState)


async def test_a_partition_that_is_led_elsewhere_is_said_to_be(partition: Partition) -> None:
    partition.apply(LED_BY_1._replace(leader=2, replicas=(1, 2), leader_epoch=4, partition_epoch=9))
    assert isinstance(await verified(partition, AgreeingCoordinator()), NotLeaderOrFollower)
