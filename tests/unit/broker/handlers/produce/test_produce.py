import asyncio

import pytest

from millstream.broker.handlers.produce.produce import ProduceFamily
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.errors import (
    InvalidRecord,
    InvalidRequiredAcks,
    RequestTimedOut,
    StorageError,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from millstream.wire.api import ApiKey
from millstream.wire.compression import Codec, compress
from tests.batches import encode_batch, encode_block, encode_record
from tests.manual_clock import ManualClock
from tests.unit.broker.handlers.desk import Desk
from tests.unit.broker.produce_family import produce_family
from tests.unit.cluster.hosting import NOW_MS, flush, topic_state, view_of


@pytest.fixture
def family(replicas: Replicas) -> ProduceFamily:
    return produce_family(replicas, ManualClock(NOW_MS))


@pytest.fixture
async def flushing(replicas: Replicas) -> list[Partition]:
    await replicas.apply(view_of(topic_state(partitions=2, flush_messages="1")))
    return list(replicas)


def asked(*indexes: int, acks: int = -1, timeout_ms: int = 1_000_000, **fields: object) -> dict[str, object]:
    data = [{"index": index, "records": encode_batch([b"v"], timestamp=NOW_MS)} for index in indexes]
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout_ms": timeout_ms,
        "topic_data": [{"name": "orders", "partition_data": data}],
    } | fields


def codes(answer: object) -> list[int]:
    return [partition.error_code for topic in answer.responses for partition in topic.partition_responses]  # type: ignore[attr-defined]


def waiting(partitions: list[Partition]) -> int:
    return sum(partition.high_watermark.is_awaited + partition.durable.is_awaited for partition in partitions)


@pytest.mark.parametrize("acks", [1, -1])
async def test_without_a_flush_the_answer_comes_at_once(replicas: Replicas, family: ProduceFamily, desk: Desk, acks: int) -> None:
    await replicas.apply(view_of(topic_state()))
    for offset in range(2):
        answer = await desk.ask(family.produce, ApiKey.PRODUCE, 9, **asked(0, acks=acks))
        assert answer.responses[0].partition_responses[0].base_offset == offset


async def test_no_records_are_no_batch(replicas: Replicas, family: ProduceFamily, desk: Desk) -> None:
    await replicas.apply(view_of(topic_state()))
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": None}]}]
    assert codes(await desk.ask(family.produce, ApiKey.PRODUCE, 9, **asked(topic_data=topics))) == [InvalidRecord.code]


async def test_zstd_needs_version_7(replicas: Replicas, family: ProduceFamily, desk: Desk) -> None:
    """Also where a request brings several batches for a partition: each is refused or appended by itself."""
    await replicas.apply(view_of(topic_state()))
    zstd, lz4 = (
        encode_block(compress(encode_record(0, b"v"), codec), 1, timestamp=NOW_MS, max_timestamp=NOW_MS, attributes=codec)
        for codec in (Codec.ZSTD, Codec.LZ4)
    )
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": batch} for batch in (lz4, zstd, lz4)]}]
    for version, refusal in ((3, UnsupportedCompressionType.code), (6, UnsupportedCompressionType.code), (7, 0)):
        assert codes(await desk.ask(family.produce, ApiKey.PRODUCE, version, **asked(topic_data=topics))) == [0, refusal, 0]
    assert replicas.partition("orders", 0).log.log_end_offset == 7


async def test_each_partition_fails_by_itself(replicas: Replicas, family: ProduceFamily, desk: Desk) -> None:
    await replicas.apply(view_of(topic_state()))
    answer = await desk.ask(family.produce, ApiKey.PRODUCE, 9, **asked(0, 5))
    assert codes(answer) == [0, UnknownTopicOrPartition.code]


@pytest.mark.parametrize("acks", [1, -1])
async def test_an_answer_waits_for_all_its_partitions(family: ProduceFamily, desk: Desk, flushing: list[Partition], acks: int) -> None:
    assert await desk.ask(family.produce, ApiKey.PRODUCE, 9, **asked(0, 1, 7, acks=acks)) is None
    flush(flushing[0])
    assert desk.pending[0].chunks is None
    flush(flushing[1])
    assert codes(await desk.later(ApiKey.PRODUCE, 9)) == [0, 0, UnknownTopicOrPartition.code]
    assert waiting(flushing) == 0


async def test_the_time_of_the_client_ends_the_wait(family: ProduceFamily, desk: Desk, flushing: list[Partition]) -> None:
    assert await desk.ask(family.produce, ApiKey.PRODUCE, 9, **asked(0, 1, timeout_ms=1)) is None
    flush(flushing[0])
    assert codes(await desk.later(ApiKey.PRODUCE, 9)) == [0, RequestTimedOut.code]
    assert waiting(flushing) == 0


async def test_a_client_that_goes_leaves_nothing_waiting(family: ProduceFamily, desk: Desk, flushing: list[Partition]) -> None:
    assert await desk.ask(family.produce, ApiKey.PRODUCE, 9, **asked(0, 1)) is None
    timers = [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
    desk.abandon()
    assert waiting(flushing) == 0
    left = [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
    assert len(left) == len(timers) - 1


async def test_a_disk_that_fails_fails_the_waiting(family: ProduceFamily, desk: Desk, flushing: list[Partition]) -> None:
    assert await desk.ask(family.produce, ApiKey.PRODUCE, 9, **asked(0, 1)) is None
    flushing[0].fail_waiters(StorageError("gone"))
    flush(flushing[1])
    assert codes(await desk.later(ApiKey.PRODUCE, 9)) == [StorageError.code, 0]


async def test_acks_0_is_not_answered_and_closes_on_an_error(replicas: Replicas, family: ProduceFamily, desk: Desk) -> None:
    await replicas.apply(view_of(topic_state()))
    assert await desk.ask(family.produce, ApiKey.PRODUCE, 9, **asked(0, acks=0)) is None
    assert (desk.pending, desk.closed) == ([], [])
    assert await desk.ask(family.produce, ApiKey.PRODUCE, 9, **asked(5, acks=0)) is None
    assert len(desk.closed) == 1


@pytest.mark.parametrize(("fields", "code"), [({"acks": 2}, InvalidRequiredAcks.code)])
async def test_a_request_that_is_wrong_as_a_whole_writes_nothing(
    replicas: Replicas, family: ProduceFamily, desk: Desk, fields: dict[str, object], code: int
) -> None:
    await replicas.apply(view_of(topic_state()))
    assert codes(await desk.ask(family.produce, ApiKey.PRODUCE, 9, **(asked(0) | fields))) == [code]
    assert replicas.partition("orders", 0).log.log_end_offset == 0
