import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

import pytest

from millstream.broker.handlers.offsets import OffsetsFamily
from millstream.broker.network.api import Request
from millstream.broker.network.connection import Connection
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.coordination.partition_state import PartitionState
from millstream.errors import (
    FencedLeaderEpoch,
    LeaderNotAvailable,
    OffsetNotAvailable,
    OffsetOutOfRange,
    PolicyViolation,
    RequestTimedOut,
    StorageError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from millstream.log.segment import Segment
from millstream.wire.api import ApiKey
from millstream.wire.batch import BatchHeader
from millstream.wire.compression import Codec
from millstream.wire.frames import read_request_header
from millstream.wire.records import Record, Walked, encode_batch, walk_records
from tests.connection import encode_request
from tests.unit.broker.handlers.desk import Desk
from tests.unit.cluster.hosting import NOW_MS, append, topic_state, view_of
from tests.unit.cluster.test_leader_transactions import end, send
from tests.waiting import eventually


@pytest.fixture
def family(replicas: Replicas, executor: ThreadPoolExecutor) -> OffsetsFamily:
    return OffsetsFamily(replicas, executor=executor)


async def list_offset(
    desk: Desk, family: OffsetsFamily, timestamp: int, *, version: int = 11, epoch: int = -1, topic: str = "orders", isolation: int = 0
) -> Any:
    wanted = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": epoch}
    topics = [{"name": topic, "partitions": [wanted]}]
    answer = await desk.ask(family.list_offsets, ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=isolation, topics=topics)
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


async def test_readers_of_committed_data_find_the_end_and_times_before_the_oldest_open_transaction(
    replicas: Replicas, family: OffsetsFamily, desk: Desk
) -> None:
    await replicas.apply(view_of(topic_state()))
    [partition] = replicas
    append(partition, b"plain")
    send(partition, 7)
    append(partition, b"behind it")
    assert [(await list_offset(desk, family, -1, isolation=isolation)).offset for isolation in (0, 1)] == [3, 1]
    assert [(await list_offset(desk, family, NOW_MS, isolation=isolation)).offset for isolation in (0, 1)] == [0, 0]
    end(partition, 7, is_commit=True)
    assert (await list_offset(desk, family, -1, isolation=1)).offset == 4


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
    for policy in ("compact,delete", ""):  # nothing is deleted by itself where the list is empty, and yet it may be asked for
        await replicas.apply(view_of(topic_state(cleanup_policy=policy)))
        assert await delete(desk, family, -1) == (0, 0)


async def turns_of(work: Awaitable[Any], counted: Callable[[], int]) -> tuple[Any, list[int]]:
    """What the work comes to, and how much was counted in each turn of the loop until it was done."""
    task, counts, before = asyncio.ensure_future(work), list[int](), counted()
    while not task.done():
        await asyncio.sleep(0)
        counts.append(counted() - before)
        before = counted()
    return await task, counts


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A one per batch header or record that a search has looked at."""
    looked: list[int] = []
    header_at = Segment.header_at

    def counted_header(segment: Segment, position: int) -> Any:
        looked.append(1)
        return header_at(segment, position)

    def counted_records(payload: bytes, header: BatchHeader, *, from_timestamp: int) -> Iterator[Walked]:
        for record in walk_records(payload, header, from_timestamp=from_timestamp):
            looked.append(1)
            yield record

    monkeypatch.setattr(Segment, "header_at", counted_header)
    monkeypatch.setattr("millstream.log.records.timestamp_search.walk_records", counted_records)
    return looked


def promise(partition: Partition, count: int, *, codec: Codec = Codec.NONE) -> None:
    """Append a batch whose header promises a later time than any of its records has."""
    records = [Record(number, NOW_MS, None, b"x") for number in range(count)]
    batch = encode_batch(records, codec=codec, max_timestamp=NOW_MS + 1000)
    partition.as_leader().append(batch, acks=1, now_ms=NOW_MS)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
async def test_no_turn_of_the_loop_searches_for_long(
    replicas: Replicas, desk: Desk, executor: ThreadPoolExecutor, looked_at: list[int], codec: Codec
) -> None:
    """Many batches, and many records in each, that all have to be looked at; and five clients that ask for it."""
    await replicas.apply(view_of(topic_state()))
    partition = replicas.partition("orders", 0)
    for _ in range(20):
        promise(partition, 300, codec=codec)
    append(partition, b"a")
    family = OffsetsFamily(replicas, executor=executor, units_per_turn=100)
    asking = asyncio.gather(*(list_offset(desk, family, NOW_MS + 500) for _ in range(5)))
    answers, counts = await turns_of(asking, lambda: sum(looked_at))
    assert [answer.offset for answer in answers] == [-1] * 5
    assert sum(looked_at) >= 5 * 20 * 300
    assert max(counts) <= 100


async def test_a_search_that_ends_soon_is_answered_at_once(replicas: Replicas, family: OffsetsFamily, desk: Desk) -> None:
    await replicas.apply(view_of(topic_state()))
    append(replicas.partition("orders", 0), b"a", b"b", b"c")
    asked = {"partition_index": 0, "timestamp": NOW_MS, "current_leader_epoch": -1}
    frame = memoryview(encode_request(ApiKey.LIST_OFFSETS, 7, {"replica_id": -1, "topics": [{"name": "orders", "partitions": [asked]}]}))[
        4:
    ]
    reply = family.list_offsets(Request(cast(Connection, desk), read_request_header(frame), frame))
    assert isinstance(reply, Mapping)


async def test_an_error_in_the_middle_of_a_search_is_the_partitions_own(
    replicas: Replicas, desk: Desk, executor: ThreadPoolExecutor
) -> None:
    await replicas.apply(view_of(topic_state()))
    partition = replicas.partition("orders", 0)
    for _ in range(20):
        promise(partition, 50)
    family = OffsetsFamily(replicas, executor=executor, units_per_turn=20)
    asking = asyncio.ensure_future(list_offset(desk, family, NOW_MS + 500))
    await asyncio.sleep(0)
    partition.log.close()
    assert (await asking).error_code == StorageError.code


THREE = PartitionState(replicas=(1, 2, 3), leader=1, leader_epoch=3, in_sync_replicas=(1, 2, 3))


@pytest.mark.parametrize(("version", "code"), [(4, LeaderNotAvailable.code), (5, OffsetNotAvailable.code), (11, OffsetNotAvailable.code)])
async def test_new_leader_does_not_say_where_the_end_is_before_it_knows(
    replicas: Replicas, family: OffsetsFamily, desk: Desk, version: int, code: int
) -> None:
    await replicas.apply(view_of(replace(topic_state(), partitions=(THREE,))))
    partition = replicas.partition("orders", 0)
    append(partition, b"a")
    await replicas.apply(view_of(replace(topic_state(), partitions=(THREE._replace(leader_epoch=4),))))
    assert (await list_offset(desk, family, -1, version=version)).error_code == code
    assert (await list_offset(desk, family, NOW_MS, version=version)).error_code == code, "the time may be found below the end later"
    assert (await list_offset(desk, family, -2, version=version)).error_code == 0
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": 4}]}]
    follower = await desk.ask(family.list_offsets, ApiKey.LIST_OFFSETS, 11, replica_id=2, isolation_level=0, topics=topics)
    assert follower.topics[0].partitions[0].offset == 1, "a follower asks for the log end"
    for replica in (2, 3):
        partition.as_leader().replica_fetched(replica, 5, 1, 0)
    assert (await list_offset(desk, family, -1, version=version)).offset == 1
    assert (await list_offset(desk, family, NOW_MS, version=version)).offset == 0


@pytest.mark.parametrize("follows", [True, False])
async def test_deleting_records_waits_for_the_followers(replicas: Replicas, family: OffsetsFamily, desk: Desk, *, follows: bool) -> None:
    await replicas.apply(view_of(replace(topic_state(), partitions=(THREE,))))
    partition = replicas.partition("orders", 0)
    append(partition, b"a")
    leader = partition.as_leader()
    for replica in (2, 3):
        leader.replica_fetched(replica, 5, 1, 0)
    deleting = asyncio.create_task(delete(desk, family, 1))
    await eventually(lambda: leader.low_watermark.is_awaited)
    assert not deleting.done()
    leader.replica_fetched(2, 5, 1, 1)
    if follows:
        leader.replica_fetched(3, 5, 1, 1)
    assert await deleting == ((0, 1) if follows else (RequestTimedOut.code, 0))
