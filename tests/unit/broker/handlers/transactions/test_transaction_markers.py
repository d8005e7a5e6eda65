"""WriteTxnMarkers without a socket: requests and answers in the versions there are."""

import pytest

from millstream.broker.handlers.transactions.transaction_markers import MAX_MARKERS, TransactionMarkersFamily
from millstream.broker.transactions.marker_writes import MarkerWrites
from millstream.cluster.replicas import Replicas
from millstream.errors import InvalidProducerEpoch, MalformedFrame, UnknownTopicOrPartition
from millstream.wire.api import ApiKey
from tests.manual_clock import ManualClock
from tests.unit.broker.handlers.desk import Desk
from tests.unit.cluster.hosting import follow, topic_state, view_of
from tests.unit.cluster.test_leader_transactions import send


@pytest.fixture
async def family(replicas: Replicas, clock: ManualClock) -> TransactionMarkersFamily:
    await follow(replicas, view_of(topic_state(partitions=2)))
    return TransactionMarkersFamily(MarkerWrites(replicas, clock))


def marker(producer_id: int, epoch: int, *indexes: int, **fields: object) -> dict[str, object]:
    topics = [{"name": "orders", "partition_indexes": indexes}]
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": True,
        "topics": topics,
        "coordinator_epoch": 1,
        **fields,
    }


@pytest.mark.parametrize("version", [1, 2])
async def test_each_producer_and_partition_has_its_answer(family: TransactionMarkersFamily, desk: Desk, version: int) -> None:
    markers = [marker(7, 1, 0, 5), marker(7, 0, 1), marker(8, 0, 0), marker(8, -1, 0)]
    answer = await desk.ask(family.write_txn_markers, ApiKey.WRITE_TXN_MARKERS, version, markers=markers)
    found = {
        (one.producer_id, topic.name, partition.partition_index): partition.error_code
        for one in answer.markers
        for topic in one.topics
        for partition in topic.partitions
    }
    assert found == {
        (7, "orders", 0): 0,
        (7, "orders", 5): UnknownTopicOrPartition.code,
        (7, "orders", 1): 0,
        (8, "orders", 0): InvalidProducerEpoch.code,
    }


async def test_the_transaction_version_of_a_marker_counts(family: TransactionMarkersFamily, desk: Desk, replicas: Replicas) -> None:
    for version, code in ((1, 0), (2, InvalidProducerEpoch.code)):
        send(replicas.partition("orders", 0), version, epoch=3)
        markers = [marker(version, 3, 0, transaction_version=2)] if version == 2 else [marker(version, 3, 0)]
        answer = await desk.ask(family.write_txn_markers, ApiKey.WRITE_TXN_MARKERS, version, markers=markers)
        assert answer.markers[0].topics[0].partitions[0].error_code == code


async def test_a_request_without_markers_is_answered(family: TransactionMarkersFamily, desk: Desk) -> None:
    answer = await desk.ask(family.write_txn_markers, ApiKey.WRITE_TXN_MARKERS, 1, markers=[])
    assert answer.markers == ()


async def test_a_request_with_too_many_markers_is_not_begun(family: TransactionMarkersFamily, desk: Desk, replicas: Replicas) -> None:
    markers = [marker(7, 1, *range(MAX_MARKERS)), marker(8, 1, 0)]
    with pytest.raises(MalformedFrame):
        await desk.ask(family.write_txn_markers, ApiKey.WRITE_TXN_MARKERS, 1, markers=markers)
    assert replicas.partition("orders", 0).log.log_end_offset == 0
