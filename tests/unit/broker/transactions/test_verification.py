"""Which coordinator is asked, and what is made of its answer."""

import asyncio

from millstream.broker.transactions.verification import TransactionSupport
from millstream.errors import CoordinatorNotAvailable
from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import ConcurrentTransactions
from millstream.transactions.transaction import Producer
from tests.unit.broker.produce_family import AgreeingCoordinator

ONE = TopicPartition("a", 1)


def no_coordinator(_transactional_id: str) -> int:
    raise CoordinatorNotAvailable("no topic yet")


async def test_without_a_coordinator_the_client_is_to_try_again() -> None:
    verification = AgreeingCoordinator().verification(lambda work: work.close(), coordinator_of=no_coordinator)
    codes = await verification.verify("t", Producer(7, 0), frozenset((ONE,)), TransactionSupport.ADD_PARTITION)
    assert codes == {ONE: CoordinatorNotAvailable.code}


async def test_a_transaction_that_is_being_ended_is_waited_for_where_the_partition_is_added() -> None:
    coordinator = AgreeingCoordinator()
    verification = coordinator.verification(lambda work: work.close())
    coordinator.code = ConcurrentTransactions.code
    adding = verification.verify("t", Producer(7, 0), frozenset((ONE,)), TransactionSupport.ADD_PARTITION)
    verifying = verification.verify("t", Producer(7, 0), frozenset((ONE,)), TransactionSupport.GENERIC_ERROR_SUPPORTED)
    assert verifying.result() == {ONE: ConcurrentTransactions.code}
    coordinator.code = 0
    assert await asyncio.wait_for(adding, 20) == {ONE: 0}
    assert len(coordinator.questions) == 3


async def test_verification_can_be_switched_off_for_clients_that_add_partitions_themselves() -> None:
    coordinator = AgreeingCoordinator()
    verification = coordinator.verification(lambda work: work.close(), transaction_partition_verification_enable="false")
    for support, count in ((TransactionSupport.DEFAULT_ERROR, 0), (TransactionSupport.ADD_PARTITION, 1)):
        assert await verification.verify("t", Producer(7, 0), frozenset((ONE,)), support) == {ONE: 0}
        assert len(coordinator.questions) == count


async def test_who_waits_no_longer_is_not_answered() -> None:
    coordinator = AgreeingCoordinator()
    coordinator.is_answering = False
    verification = coordinator.verification(lambda work: work.close())
    verification.verify("t", Producer(7, 0), frozenset((ONE,)), TransactionSupport.DEFAULT_ERROR).cancel()
    coordinator.answer()


def test_the_version_of_a_request_says_what_its_client_knows() -> None:
    assert [TransactionSupport.of_produce(version) for version in (3, 10, 11, 12, 13)] == [
        TransactionSupport.DEFAULT_ERROR,
        TransactionSupport.DEFAULT_ERROR,
        TransactionSupport.GENERIC_ERROR_SUPPORTED,
        TransactionSupport.ADD_PARTITION,
        TransactionSupport.ADD_PARTITION,
    ]
