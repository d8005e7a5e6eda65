"""Fetches of followers, and of those who say that they are."""

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
from millstream.errors import FencedLeaderEpoch, NotLeaderOrFollower, OffsetOutOfRange, UnknownLeaderEpoch
from millstream.wire.api import ApiKey
from tests.batches import decode_records
from tests.manual_clock import ManualClock
from tests.unit.broker.handlers.desk import Desk
from tests.unit.cluster.hosting import TOPIC_ID, append, topic_state, view_of

LONG_MS = 1_000_000
STATE = PartitionState(replicas=(1, 2, 3), leader=1, leader_epoch=3, in_sync_replicas=(1, 2))
BROKERS = {number: BrokerState(number, f"host{number}", 9000 + number, "rack", epoch=10 * number) for number in (1, 2, 3, 4)}


@pytest.fixture
def family(replicas: Replicas, executor: ThreadPoolExecutor, clock: ManualClock) -> FetchFamily:
    sessions = FetchSessions(max_sessions=1, min_idle_ms=1000)
    return FetchFamily(replicas, sessions=sessions, loader=RegionLoader(executor), clock=clock, max_bytes=1 << 20)


def view(*states: PartitionState) -> ClusterView:
    return replace(view_of(replace(topic_state(), partitions=states)), brokers=BROKERS)


@pytest.fixture
async def partition(replicas: Replicas) -> Partition:
    await replicas.apply(view(STATE))
    return replicas.partition("orders", 0)


def asked(offset: int = 0, *, replica: int = 2, life: int = 20, epoch: int = 3, **fields: object) -> dict[str, object]:
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": epoch, "log_start_offset": 0}
    return {
        "replica_state": {"replica_id": replica, "replica_epoch": life},
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic_id": TOPIC_ID, "partitions": [wanted]}],
    } | fields


async def test_follower_gets_what_is_not_committed_and_says_what_it_has(family: FetchFamily, desk: Desk, partition: Partition) -> None:
    append(partition, b"a", b"b")
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 17, **asked())
    found = answer.responses[0].partitions[0]
    assert [record.value for record in decode_records(found.records)] == [b"a", b"b"]
    assert (found.high_watermark, partition.high_watermark.value) == (0, 0)
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 17, **asked(2))
    assert answer.responses[0].partitions[0].high_watermark == partition.high_watermark.value == 2


@pytest.mark.parametrize(
    ("replica", "life", "epoch", "code"),
    [
        (2, 21, 3, NotLeaderOrFollower.code),
        (2, -1, 3, NotLeaderOrFollower.code),
        (4, 40, 3, UnknownLeaderEpoch.code),
        (4, 40, -1, NotLeaderOrFollower.code),
        (1, 10, 3, UnknownLeaderEpoch.code),
        (2, 20, 2, FencedLeaderEpoch.code),
        (2, 20, 4, UnknownLeaderEpoch.code),
    ],
)
async def test_whoever_is_no_follower_in_its_present_life_is_refused_and_not_counted(
    family: FetchFamily, desk: Desk, partition: Partition, replica: int, life: int, epoch: int, code: int
) -> None:
    append(partition, b"a")
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 17, **asked(1, replica=replica, life=life, epoch=epoch))
    found = answer.responses[0].partitions[0]
    assert (found.error_code, found.records or b"") == (code, b"")
    assert partition.high_watermark.value == 0


async def test_replica_id_of_an_older_version_is_worth_nothing(family: FetchFamily, desk: Desk, partition: Partition) -> None:
    append(partition, b"a")
    fields = asked(1) | {"replica_id": 2}
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 14, **{name: value for name, value in fields.items() if name != "replica_state"})
    assert answer.responses[0].partitions[0].error_code == NotLeaderOrFollower.code
    assert partition.high_watermark.value == 0


async def test_fetch_without_an_epoch_or_beyond_the_end_is_not_counted(family: FetchFamily, desk: Desk, partition: Partition) -> None:
    append(partition, b"a")
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 17, **asked(1, epoch=-1))
    assert answer.responses[0].partitions[0].error_code == 0
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 17, **asked(2))
    assert answer.responses[0].partitions[0].error_code == OffsetOutOfRange.code
    assert partition.high_watermark.value == 0


async def test_diverging_follower_is_not_counted(family: FetchFamily, desk: Desk, partition: Partition) -> None:
    append(partition, b"a")
    partition.apply(STATE._replace(leader_epoch=5))
    append(partition, b"b")
    wanted = {"partition": 0, "fetch_offset": 2, "last_fetched_epoch": 4, "partition_max_bytes": 100, "current_leader_epoch": 5}
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 17, **asked(topics=[{"topic_id": TOPIC_ID, "partitions": [wanted]}]))
    found = answer.responses[0].partitions[0]
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (3, 1)
    assert partition.high_watermark.value == 0


async def test_follower_waits_for_the_log_end_and_a_consumer_for_the_high_watermark(
    family: FetchFamily, desk: Desk, partition: Partition
) -> None:
    follower, consumer = desk, Desk()
    wait = {"max_wait_ms": LONG_MS}
    assert await follower.ask(family.fetch, ApiKey.FETCH, 17, **asked() | wait) is None
    assert await consumer.ask(family.fetch, ApiKey.FETCH, 17, **asked(replica=-1, life=-1) | wait) is None
    append(partition, b"a")
    answer = await follower.later(ApiKey.FETCH, 17)
    assert len(decode_records(answer.responses[0].partitions[0].records)) == 1
    assert len(partition.watchers) == 1
    assert await Desk().ask(family.fetch, ApiKey.FETCH, 17, **asked(1) | wait) is None
    answer = await consumer.later(ApiKey.FETCH, 17)
    assert len(decode_records(answer.responses[0].partitions[0].records)) == 1


async def test_follower_that_waits_is_answered_when_the_leader_changes_and_is_sent_to_it(
    replicas: Replicas, family: FetchFamily, desk: Desk, partition: Partition
) -> None:
    assert await desk.ask(family.fetch, ApiKey.FETCH, 17, **asked(max_wait_ms=LONG_MS)) is None
    await replicas.apply(view(STATE._replace(leader=3, leader_epoch=4)))
    answer = await desk.later(ApiKey.FETCH, 17)
    found = answer.responses[0].partitions[0]
    assert found.error_code == FencedLeaderEpoch.code
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (3, 4)
    [endpoint] = answer.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack) == (3, "host3", 9003, "rack")


async def test_session_of_a_follower_mentions_a_high_watermark_that_moved(family: FetchFamily, desk: Desk, partition: Partition) -> None:
    append(partition, b"a")
    first = await desk.ask(family.fetch, ApiKey.FETCH, 17, **asked(session_epoch=0))
    session = {"session_id": first.session_id}
    second = await desk.ask(family.fetch, ApiKey.FETCH, 17, **asked(1, session_epoch=1) | session)
    assert second.responses[0].partitions[0].high_watermark == 1
    third = await desk.ask(family.fetch, ApiKey.FETCH, 17, **asked(session_epoch=2, topics=[]) | session)
    assert third.responses == ()
    partition.as_leader().replica_set.asked({1, 2, 3})
    append(partition, b"b")
    fourth = await desk.ask(family.fetch, ApiKey.FETCH, 17, **asked(session_epoch=3, topics=[]) | session)
    assert len(fourth.responses[0].partitions) == 1


async def test_follower_has_a_session_before_consumers(family: FetchFamily, partition: Partition) -> None:
    consumer = asked(replica=-1, life=-1, session_epoch=0)
    first = await Desk().ask(family.fetch, ApiKey.FETCH, 17, **consumer)
    assert first.session_id > 0
    assert (await Desk().ask(family.fetch, ApiKey.FETCH, 17, **consumer)).session_id == 0
    follower = await Desk().ask(family.fetch, ApiKey.FETCH, 17, **asked(session_epoch=0))
    assert follower.session_id > 0
    assert (await Desk().ask(family.fetch, ApiKey.FETCH, 17, **consumer)).session_id == 0
