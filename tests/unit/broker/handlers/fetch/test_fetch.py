from concurrent.futures import ThreadPoolExecutor

import pytest

from millstream.broker.handlers.fetch.fetch import FetchFamily
from millstream.broker.handlers.fetch.fetch_sessions import FetchSessions
from millstream.broker.network.region_loader import RegionLoader
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.errors import OffsetOutOfRange, UnknownTopicOrPartition
from millstream.wire.api import ApiKey
from tests.batches import decode_records
from tests.manual_clock import ManualClock
from tests.unit.broker.handlers.desk import Desk
from tests.unit.cluster.hosting import append, flush, topic_state, view_of
from tests.unit.cluster.test_leader_transactions import end, send

LONG_MS = 1_000_000


@pytest.fixture
def family(replicas: Replicas, executor: ThreadPoolExecutor, clock: ManualClock) -> FetchFamily:
    sessions = FetchSessions(max_sessions=10, min_idle_ms=1000)
    return FetchFamily(replicas, sessions=sessions, loader=RegionLoader(executor), clock=clock, max_bytes=1 << 20)


@pytest.fixture
async def partitions(replicas: Replicas) -> list[Partition]:
    await replicas.apply(view_of(topic_state(partitions=2)))
    return list(replicas)


def asked(offset: int = 0, *, count: int = 1, max_wait_ms: int = LONG_MS, min_bytes: int = 1, **fields: object) -> dict[str, object]:
    wanted = [{"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20} for index in range(count)]
    return {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": 1 << 20,
        "topics": [{"topic": "orders", "partitions": wanted}],
    } | fields


def waiters(partitions: list[Partition]) -> int:
    return sum(len(partition.watchers) for partition in partitions)


async def test_what_is_there_is_answered_at_once(family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    append(partitions[0], b"a", b"b")
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked())
    found = answer.responses[0].partitions[0]
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (2, 2, 0)
    assert [record.value for record in decode_records(found.records)] == [b"a", b"b"]


async def test_readers_of_committed_data_wait_for_the_end_of_a_transaction_and_are_told_what_was_aborted(
    family: FetchFamily, desk: Desk, partitions: list[Partition]
) -> None:
    partition = partitions[0]
    send(partition, 7)
    assert await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked(isolation_level=1)) is None
    append(partition, b"behind it")
    end(partition, 7, is_commit=False)
    found = (await desk.later(ApiKey.FETCH, 12)).responses[0].partitions[0]
    assert (found.high_watermark, found.last_stable_offset) == (3, 3)
    assert [(one.producer_id, one.first_offset) for one in found.aborted_transactions] == [(7, 0)]
    assert len(decode_records(found.records)) == 3
    found = (await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked())).responses[0].partitions[0]
    assert found.aborted_transactions is None


async def test_an_empty_fetch_waits_for_the_next_append_and_then_lets_go(
    family: FetchFamily, desk: Desk, partitions: list[Partition]
) -> None:
    assert await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked(count=2)) is None
    assert waiters(partitions) == 2
    append(partitions[1], b"a")
    answer = await desk.later(ApiKey.FETCH, 12)
    assert [len(decode_records(found.records)) for found in answer.responses[0].partitions] == [0, 1]
    assert waiters(partitions) == 0


async def test_a_fetch_waits_for_enough_bytes(family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    assert await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked(min_bytes=200)) is None
    append(partitions[0], b"a" * 60)
    append(partitions[0], b"a" * 60)
    answer = await desk.later(ApiKey.FETCH, 12)
    assert len(decode_records(answer.responses[0].partitions[0].records)) == 2


async def test_a_fetch_does_not_wait_for_more_than_it_takes(family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    append(partitions[0], b"a" * 60)
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked(min_bytes=1 << 20, max_bytes=100))
    assert len(decode_records(answer.responses[0].partitions[0].records)) == 1


async def test_what_does_not_fit_counts_for_the_wait_as_far_as_its_partition_may_give(
    family: FetchFamily, desk: Desk, partitions: list[Partition]
) -> None:
    for partition in partitions:
        append(partition, b"a" * 500)
    limits = asked(count=2, min_bytes=1000, max_bytes=1000)
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 12, **limits)
    assert [len(decode_records(found.records)) for found in answer.responses[0].partitions] == [1, 0]
    wanted = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 400} for index in range(2)]
    narrow = limits | {"topics": [{"topic": "orders", "partitions": wanted}]}
    assert await desk.ask(family.fetch, ApiKey.FETCH, 12, **narrow) is None
    desk.abandon()


async def test_a_fetch_in_an_older_segment_does_not_wait(family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    append(partitions[0], b"a")
    partitions[0].log.roll(now_ms=1)
    append(partitions[0], b"b")
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked(min_bytes=1 << 19))
    assert [record.value for record in decode_records(answer.responses[0].partitions[0].records)] == [b"a"]
    assert await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked(offset=1, min_bytes=1 << 19)) is None
    desk.abandon()


async def test_the_deadline_ends_the_wait_with_what_there_is(family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    assert await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked(max_wait_ms=1)) is None
    answer = await desk.later(ApiKey.FETCH, 12)
    assert answer.responses[0].partitions[0].records in (None, b"")
    assert waiters(partitions) == 0


async def test_a_client_that_goes_leaves_nothing_waiting(family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    assert await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked(count=2)) is None
    desk.abandon()
    assert waiters(partitions) == 0
    append(partitions[0], b"a")
    assert desk.pending[0].chunks is None


async def test_what_is_not_on_disk_yet_does_not_wake_a_fetch(replicas: Replicas, family: FetchFamily, desk: Desk) -> None:
    await replicas.apply(view_of(topic_state(flush_messages="1")))
    partition = replicas.partition("orders", 0)
    assert await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked()) is None
    append(partition, b"a")
    assert len(partition.watchers) == 1
    flush(partition)
    answer = await desk.later(ApiKey.FETCH, 12)
    assert len(decode_records(answer.responses[0].partitions[0].records)) == 1


async def test_a_deleted_topic_wakes_its_fetches(replicas: Replicas, family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    assert await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked()) is None
    await replicas.apply(view_of())
    answer = await desk.later(ApiKey.FETCH, 12)
    assert answer.responses[0].partitions[0].error_code == UnknownTopicOrPartition.code
    assert waiters(partitions) == 0


async def test_an_error_is_answered_at_once(family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    append(partitions[0], b"a")
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked(offset=7))
    found = answer.responses[0].partitions[0]
    assert (found.error_code, found.high_watermark, found.records) in ((OffsetOutOfRange.code, -1, b""), (OffsetOutOfRange.code, -1, None))


async def test_a_divergence_comes_with_the_watermarks_and_every_time(family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    append(partitions[0], b"a")
    partitions[0].apply(partitions[0].state._replace(leader_epoch=5))
    append(partitions[0], b"b")
    wanted = {"partition": 0, "fetch_offset": 2, "last_fetched_epoch": 4, "partition_max_bytes": 100}
    fields = asked(topics=[{"topic": "orders", "partitions": [wanted]}])
    session_id = 0
    for epoch in range(3):
        answer = await desk.ask(family.fetch, ApiKey.FETCH, 12, **(fields | {"session_id": session_id, "session_epoch": epoch}))
        session_id = answer.session_id
        found = answer.responses[0].partitions[0]
        assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset, found.high_watermark) == (3, 1, 2)


async def test_an_incremental_answer_leaves_out_what_did_not_change(family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    append(partitions[0], b"a")
    first = await desk.ask(family.fetch, ApiKey.FETCH, 12, **asked(count=2, session_id=0, session_epoch=0))
    assert len(first.responses[0].partitions) == 2
    changed = asked(topics=[{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 1, "partition_max_bytes": 100}]}])
    again = changed | {"session_id": first.session_id, "session_epoch": 1, "max_wait_ms": 0}
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 12, **again)
    assert (answer.responses, answer.session_id) == ((), first.session_id)
