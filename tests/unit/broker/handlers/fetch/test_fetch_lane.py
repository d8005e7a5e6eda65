"""Fetches that are repeated at the end of a log, by the lane that the handler opens for them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from millstream.broker.handlers.fetch.fetch import FetchFamily
from millstream.broker.handlers.fetch.fetch_sessions import FetchSessions
from millstream.broker.network.region_loader import RegionLoader
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import BrokerState, ClusterView
from millstream.coordination.partition_state import PartitionState
from millstream.wire.api import ApiKey
from tests.batches import decode_records
from tests.connection import encode_request
from tests.manual_clock import ManualClock
from tests.unit.broker.handlers.desk import Desk
from tests.unit.cluster.hosting import TOPIC_ID, append, topic_state, view_of

STATE = PartitionState(replicas=(1, 2), leader=1, leader_epoch=3, in_sync_replicas=(1, 2))
BROKERS = {number: BrokerState(number, f"host{number}", 9000 + number, "rack", epoch=10 * number) for number in (1, 2)}
VERSION = 15


@pytest.fixture
def family(replicas: Replicas, executor: ThreadPoolExecutor, clock: ManualClock) -> FetchFamily:
    sessions = FetchSessions(max_sessions=10, min_idle_ms=1000)
    return FetchFamily(replicas, sessions=sessions, loader=RegionLoader(executor), clock=clock, max_bytes=1 << 20)


def view(*states: PartitionState) -> ClusterView:
    return replace(view_of(replace(topic_state(), partitions=states)), brokers=BROKERS)


@pytest.fixture
async def partitions(replicas: Replicas) -> list[Partition]:
    await replicas.apply(view(STATE, STATE))
    return [replicas.partition("orders", 0), replicas.partition("orders", 1)]


def asked(*offsets: int, life: int = 20, session: tuple[int, int] = (0, -1), last_epoch: int = -1, **fields: object) -> dict[str, object]:
    """A fetch of a follower, from the first partitions; of a consumer if its life is -1."""
    wanted = [
        {
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
            "current_leader_epoch": 3,
            "log_start_offset": 0,
            "last_fetched_epoch": last_epoch,
        }
        for index, offset in enumerate(offsets)
    ]
    return {
        "replica_state": {"replica_id": 2 if life >= 0 else -1, "replica_epoch": life},
        "max_wait_ms": 1_000_000,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [{"topic_id": TOPIC_ID, "partitions": wanted}] if wanted else [],
    } | fields


def is_taken(desk: Desk, fields: dict[str, object]) -> bool:
    assert desk.lane is not None
    return desk.lane.take(memoryview(encode_request(ApiKey.FETCH, VERSION, fields))[4:])


async def answered(desk: Desk) -> list[list[bytes | None]]:
    """The values of each partition of the answer that was waited for first."""
    answer = await desk.later(ApiKey.FETCH, VERSION)
    desk.pending.pop(0)
    found = [partition for topic in answer.responses for partition in topic.partitions]
    return [[record.value for record in decode_records(partition.records or b"")] for partition in found]


async def begin_session(family: FetchFamily, desk: Desk, *offsets: int) -> int:
    """A session of a follower that has everything; its next request has the epoch 1."""
    answer = await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(*offsets, session=(0, 0), max_wait_ms=0))
    return int(answer.session_id)


async def test_follower_that_repeats_itself_acknowledges_and_is_answered(
    family: FetchFamily, desk: Desk, partitions: list[Partition]
) -> None:
    session_id = await begin_session(family, desk, 0)
    assert desk.lane is None
    assert await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(0, session=(session_id, 1))) is None
    for number in range(3):
        append(partitions[0], b"%d" % number)
        assert await answered(desk) == [[b"%d" % number]]
        assert partitions[0].high_watermark.value == number
        assert is_taken(desk, asked(number + 1, session=(session_id, number + 2)))
        assert partitions[0].high_watermark.value == number + 1
    assert len(desk.pending) == 1


async def test_follower_whose_last_epoch_is_not_the_leaders_goes_to_the_handler(
    family: FetchFamily, desk: Desk, partitions: list[Partition]
) -> None:
    append(partitions[0], b"a")
    await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(1, last_epoch=3))
    append(partitions[0], b"b")
    await answered(desk)
    assert not is_taken(desk, asked(2, last_epoch=2))
    assert is_taken(desk, asked(2, last_epoch=3))


async def test_consumer_that_repeats_itself_is_answered_when_there_is_more(
    family: FetchFamily, desk: Desk, partitions: list[Partition]
) -> None:
    assert await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(0, life=-1)) is None
    for number in range(3):
        append(partitions[0], b"%d" % number)
        assert desk.has_unanswered  # it is not committed
        partitions[0].as_leader().replica_fetched(2, 20, number + 1, 0)
        assert await answered(desk) == [[b"%d" % number]]
        assert is_taken(desk, asked(number + 1, life=-1))
    assert len(partitions[0].watchers) == 1
    desk.abandon()
    assert len(partitions[0].watchers) == 0


async def test_what_has_something_to_read_goes_to_the_handler(family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(0))
    append(partitions[0], b"a")
    await answered(desk)
    append(partitions[0], b"b")
    assert not is_taken(desk, asked(1))
    assert not is_taken(desk, asked(3))
    assert partitions[0].high_watermark.value == 0
    assert is_taken(desk, asked(2))


async def test_request_behind_another_that_waits_goes_to_the_handler(family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(0))
    assert not is_taken(desk, asked(0))
    append(partitions[0], b"a")
    await answered(desk)
    assert is_taken(desk, asked(1))


async def test_broker_of_another_life_goes_to_the_handler(
    family: FetchFamily, desk: Desk, replicas: Replicas, partitions: list[Partition]
) -> None:
    await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(0))
    append(partitions[0], b"a")
    await answered(desk)
    assert not is_taken(desk, asked(1, life=21))
    await replicas.apply(replace(view(STATE, STATE), brokers={**BROKERS, 2: BROKERS[2]._replace(epoch=21)}))
    assert not is_taken(desk, asked(1))
    assert partitions[0].high_watermark.value == 0


async def test_another_epoch_of_the_leader_goes_to_the_handler(family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(0))
    append(partitions[0], b"a")
    await answered(desk)
    partitions[0].apply(STATE._replace(leader_epoch=4, partition_epoch=1))
    assert not is_taken(desk, asked(1))
    partitions[0].apply(STATE._replace(leader=2, leader_epoch=5, partition_epoch=2))
    assert not is_taken(desk, asked(1))


async def test_session_that_went_on_elsewhere_goes_to_the_handler(family: FetchFamily, desk: Desk, partitions: list[Partition]) -> None:
    session_id = await begin_session(family, desk, 0)
    await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(0, session=(session_id, 1)))
    append(partitions[0], b"a")
    await answered(desk)
    other = Desk()
    await other.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(1, session=(session_id, 2), max_wait_ms=0))
    assert not is_taken(desk, asked(1, session=(session_id, 2)))
    assert not is_taken(desk, asked(1, session=(session_id, 3)))
    await other.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(session=(session_id, -1), max_wait_ms=0))
    assert not is_taken(desk, asked(1, session=(session_id, 2)))


async def test_partition_that_moved_beside_the_one_that_is_named_is_answered(
    family: FetchFamily, desk: Desk, partitions: list[Partition]
) -> None:
    session_id = await begin_session(family, desk, 0, 0)
    await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(0, session=(session_id, 1)))
    append(partitions[0], b"a")
    assert await answered(desk) == [[b"a"]]
    append(partitions[1], b"b")
    assert not is_taken(desk, asked(1, session=(session_id, 2)))
    answer = await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(1, session=(session_id, 2)))
    assert {partition.partition_index for partition in answer.responses[0].partitions} == {0, 1}
