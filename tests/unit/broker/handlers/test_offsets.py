from typing import Any

import pytest

from penstock.broker.handlers.offsets import OffsetsFamily
from penstock.cluster.replicas import Replicas
from penstock.errors import FencedLeaderEpoch, OffsetOutOfRange, PolicyViolation, UnknownTopicOrPartition, UnsupportedVersion
from penstock.wire.api import ApiKey
from tests.unit.broker.handlers.desk import Desk
from tests.unit.cluster.hosting import NOW_MS, append, topic_state, view_of


@pytest.fixture
def family(replicas: Replicas) -> OffsetsFamily:
    return OffsetsFamily(replicas)


async def list_offset(
    desk: Desk, family: OffsetsFamily, timestamp: int, *, version: int = 11, epoch: int = -1, topic: str = "orders"
) -> Any:
    wanted = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": epoch}
    topics = [{"name": topic, "partitions": [wanted]}]
    answer = await desk.ask(family.list_offsets, ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=0, topics=topics)
    return answer.topics[0].partitions[0]


async def delete(desk: Desk, family: OffsetsFamily, offset: int) -> tuple[int, int]:
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "offset": offset}]}]
    answer = await desk.ask(family.delete_records, ApiKey.DELETE_RECORDS, 2, topics=topics, timeout_ms=1000)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.low_watermark


@pytest.mark.parametrize(("timestamp", "offset"), [(-1, 3), (-2, 0), (-3, 0), (-4, 0), (-5, -1), (-6, -1), (NOW_MS, 0), (NOW_MS + 1, -1)])
async def test_every_special_time_is_known(replicas: Replicas, family: OffsetsFamily, desk: Desk, timestamp: int, offset: int) -> None:
    await replicas.apply(view_of(topic_state()))
    append(replicas.partition("orders", 0), b"a", b"b", b"c")
    found = await list_offset(desk, family, timestamp)
    assert (found.error_code, found.offset) == (0, offset)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
async def test_a_special_time_before_its_version_is_refused(
    replicas: Replicas, family: OffsetsFamily, desk: Desk, timestamp: int, version: int
) -> None:
    await replicas.apply(view_of(topic_state()))
    assert (await list_offset(desk, family, timestamp, version=version)).error_code == UnsupportedVersion.code


async def test_an_old_epoch_and_an_unknown_topic_are_errors(replicas: Replicas, family: OffsetsFamily, desk: Desk) -> None:
    await replicas.apply(view_of(topic_state()))
    assert (await list_offset(desk, family, -1, epoch=1)).error_code == FencedLeaderEpoch.code
    assert (await list_offset(desk, family, -1, topic="nothing")).error_code == UnknownTopicOrPartition.code


async def test_records_are_deleted_up_to_the_high_watermark(replicas: Replicas, family: OffsetsFamily, desk: Desk) -> None:
    await replicas.apply(view_of(topic_state()))
    append(replicas.partition("orders", 0), b"a", b"b", b"c")
    assert await delete(desk, family, 1) == (0, 1)
    assert await delete(desk, family, 4) == (OffsetOutOfRange.code, -1)
    assert await delete(desk, family, -1) == (0, 3)
    assert (await list_offset(desk, family, -2)).offset == 3


async def test_records_of_a_compacted_topic_are_not_deleted(replicas: Replicas, family: OffsetsFamily, desk: Desk) -> None:
    await replicas.apply(view_of(topic_state(cleanup_policy="compact")))
    assert await delete(desk, family, -1) == (PolicyViolation.code, -1)
    await replicas.apply(view_of(topic_state(cleanup_policy="compact,delete")))
    assert await delete(desk, family, -1) == (0, 0)
