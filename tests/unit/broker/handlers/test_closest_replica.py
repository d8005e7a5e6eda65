"""Fetches of consumers that say where they are, at a leader and at a follower (KIP-392)."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from millstream.broker.handlers.fetch.fetch import FetchFamily
from millstream.broker.handlers.fetch.fetch_sessions import FetchSessions
from millstream.broker.network.region_loader import RegionLoader
from millstream.cluster.partition import Partition
from millstream.cluster.rack_selector import in_rack
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import BrokerState, ClusterView
from millstream.coordination.partition_state import PartitionState
from millstream.errors import FencedLeaderEpoch, NotLeaderOrFollower, OffsetOutOfRange, UnknownLeaderEpoch
from millstream.log.transactions.marker import Marker, encode_marker
from millstream.wire.api import ApiKey
from millstream.wire.batch import TRANSACTIONAL
from millstream.wire.records import ProducerStamp, Record, encode_batch
from tests.batches import decode_records
from tests.batches import encode_batch as encode_values
from tests.connection import encode_request
from tests.manual_clock import ManualClock
from tests.unit.broker.handlers.desk import Desk
from tests.unit.cluster.hosting import NOW_MS, TOPIC_ID, append, topic_state, view_of

VERSION = 17
LONG_MS = 1_000_000
BROKERS = {number: BrokerState(number, f"host{number}", 9000 + number, f"rack-{number}", epoch=10 * number) for number in (1, 2, 3)}
LED_HERE = PartitionState(replicas=(1, 2, 3), leader=1, leader_epoch=3, in_sync_replicas=(1, 2))
FOLLOWED_HERE = PartitionState(replicas=(1, 2), leader=2, leader_epoch=3, in_sync_replicas=(1, 2))


@pytest.fixture
def family(replicas: Replicas, executor: ThreadPoolExecutor, clock: ManualClock) -> FetchFamily:
    near = partial(in_rack, lambda: replicas.view, 1)
    sessions = FetchSessions(max_sessions=10, min_idle_ms=1000)
    return FetchFamily(replicas, sessions=sessions, loader=RegionLoader(executor), clock=clock, max_bytes=1 << 20, near=near)


def view(state: PartitionState) -> ClusterView:
    return replace(view_of(replace(topic_state(), partitions=(state,))), brokers=BROKERS)


@pytest.fixture
async def led(replicas: Replicas) -> Partition:
    """A partition that this broker leads, with two records that broker 2 has, too."""
    await replicas.apply(view(LED_HERE))
    partition = replicas.partition("orders", 0)
    append(partition, b"a", b"b")
    followed_by(partition, 2, offset=2)
    return partition


@pytest.fixture
async def followed(replicas: Replicas) -> Partition:
    """A partition that broker 2 leads, with three records of which two are known to be committed."""
    await replicas.apply(view(FOLLOWED_HERE))
    partition = replicas.partition("orders", 0)
    replicate(partition, encode_values([b"a", b"b"], leader_epoch=3), high_watermark=2)
    replicate(partition, encode_values([b"c"], base_offset=2, leader_epoch=3), high_watermark=2)
    return partition


def followed_by(partition: Partition, replica: int, *, offset: int) -> None:
    partition.as_leader().replica_fetched(replica, 10 * replica, offset, 0)


def replicate(partition: Partition, batch: bytes, *, high_watermark: int) -> None:
    assert partition.following is not None
    partition.following.append(memoryview(batch), high_watermark=high_watermark, leader_log_start=0)


def asked(
    offset: int = 0, *, rack: str = "rack-2", epoch: int = 3, session: tuple[int, int] = (0, -1), **fields: object
) -> dict[str, object]:
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": epoch, "log_start_offset": -1}
    return {
        "rack_id": rack,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [{"topic_id": TOPIC_ID, "partitions": [wanted]}],
    } | fields


async def fetch(family: FetchFamily, desk: Desk, offset: int = 0, **fields: Any) -> Any:
    answer = await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(offset, **fields))
    return answer if answer is None else answer.responses[0].partitions[0]


def values(found: Any) -> list[bytes | None]:
    return [record.value for record in decode_records(found.records or b"")]


async def test_leader_names_the_replica_in_the_rack_of_the_consumer_at_once(family: FetchFamily, desk: Desk, led: Partition) -> None:
    found = await fetch(family, desk, max_wait_ms=LONG_MS, min_bytes=1 << 20)
    assert (found.error_code, found.preferred_read_replica, values(found)) == (0, 2, [])
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (2, 2, 0)
    assert led.bytes_out == 0


@pytest.mark.parametrize("rack", ["", "rack-1", "rack-3", "elsewhere"])
async def test_leader_answers_itself_where_no_replica_is_better(family: FetchFamily, desk: Desk, led: Partition, rack: str) -> None:
    followed_by(led, 3, offset=2)  # it has everything, and is not in sync
    found = await fetch(family, desk, rack=rack)
    assert (found.preferred_read_replica, values(found)) == (-1, [b"a", b"b"])


async def test_replica_that_has_not_come_so_far_is_not_named(family: FetchFamily, desk: Desk, led: Partition) -> None:
    append(led, b"c")
    assert (await fetch(family, desk, 3)).preferred_read_replica == -1
    followed_by(led, 2, offset=3)
    assert (await fetch(family, desk, 3)).preferred_read_replica == 2


async def test_consumer_of_another_epoch_is_refused_not_sent_away(family: FetchFamily, desk: Desk, led: Partition) -> None:
    assert (await fetch(family, desk, epoch=2)).error_code == FencedLeaderEpoch.code


async def test_session_hears_of_the_replica_with_every_answer_and_when_it_comes_into_sync(
    family: FetchFamily, desk: Desk, led: Partition, replicas: Replicas
) -> None:
    answer = await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(2, rack="rack-3", session=(0, 0)))
    session_id = answer.session_id
    followed_by(led, 3, offset=2)
    await replicas.apply(view(LED_HERE._replace(in_sync_replicas=(1, 2, 3), partition_epoch=1)))
    for epoch in (1, 2):
        answer = await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **asked(rack="rack-3", session=(session_id, epoch), topics=[]))
        assert [found.preferred_read_replica for found in answer.responses[0].partitions] == [3]


async def test_repeated_fetch_at_a_leader_looks_for_a_better_replica(family: FetchFamily, desk: Desk, led: Partition) -> None:
    request = asked(2, rack="rack-3", max_wait_ms=LONG_MS)
    assert await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **request) is None
    assert desk.lane is not None
    desk.pending.clear()
    assert not desk.lane.take(memoryview(encode_request(ApiKey.FETCH, VERSION, request))[4:])


async def test_follower_shows_consumers_what_it_knows_to_be_committed(family: FetchFamily, desk: Desk, followed: Partition) -> None:
    for rack in ("rack-1", "", "rack-2"):
        found = await fetch(family, desk, rack=rack)
        assert (found.error_code, found.preferred_read_replica, values(found)) == (0, -1, [b"a", b"b"])
        assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (2, 2, 0)
    assert followed.bytes_out > 0
    assert values(await fetch(family, desk, 3)) == [], "it may ask for what comes next, though that is not known to be committed"


async def test_consumer_that_waits_at_a_follower_is_woken_when_its_high_watermark_moves(
    family: FetchFamily, desk: Desk, followed: Partition
) -> None:
    assert await fetch(family, desk, 2, rack="rack-1", max_wait_ms=LONG_MS) is None
    replicate(followed, b"", high_watermark=3)
    answer = await desk.later(ApiKey.FETCH, VERSION)
    assert values(answer.responses[0].partitions[0]) == [b"c"]


async def test_repeated_fetch_waits_at_a_follower_without_being_decoded(family: FetchFamily, desk: Desk, followed: Partition) -> None:
    request = asked(2, rack="rack-1", max_wait_ms=LONG_MS)
    assert await desk.ask(family.fetch, ApiKey.FETCH, VERSION, **request) is None
    assert desk.lane is not None
    desk.pending.clear()
    assert desk.lane.take(memoryview(encode_request(ApiKey.FETCH, VERSION, request))[4:])
    replicate(followed, b"", high_watermark=3)
    assert values((await desk.later(ApiKey.FETCH, VERSION)).responses[0].partitions[0]) == [b"c"]


@pytest.mark.parametrize(
    ("offset", "epoch", "code"), [(4, 3, OffsetOutOfRange.code), (0, 2, FencedLeaderEpoch.code), (0, 4, UnknownLeaderEpoch.code)]
)
async def test_what_a_follower_does_not_know_sends_the_consumer_back(
    family: FetchFamily, desk: Desk, followed: Partition, offset: int, epoch: int, code: int
) -> None:
    assert (await fetch(family, desk, offset, epoch=epoch)).error_code == code


async def test_consumers_of_old_versions_read_from_leaders_only(family: FetchFamily, desk: Desk, followed: Partition) -> None:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": 3}
    topics = [{"topic": "orders", "partitions": [wanted]}]
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 10, replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics)
    assert answer.responses[0].partitions[0].error_code == NotLeaderOrFollower.code
    answer = await desk.ask(family.fetch, ApiKey.FETCH, 11, replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics)
    assert values(answer.responses[0].partitions[0]) == [b"a", b"b"]


async def test_consumer_that_waits_at_a_follower_learns_of_another_leader(
    family: FetchFamily, desk: Desk, followed: Partition, replicas: Replicas
) -> None:
    assert await fetch(family, desk, 2, rack="rack-1", max_wait_ms=LONG_MS) is None
    await replicas.apply(view(FOLLOWED_HERE._replace(leader_epoch=4, partition_epoch=1)))
    answer = await desk.later(ApiKey.FETCH, VERSION)
    assert answer.responses[0].partitions[0].error_code == FencedLeaderEpoch.code


async def test_log_that_is_being_cut_is_not_read(
    family: FetchFamily, desk: Desk, followed: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed.log, "is_truncating", True)
    assert (await fetch(family, desk)).error_code == NotLeaderOrFollower.code


async def test_follower_tells_readers_of_committed_data_what_was_aborted(family: FetchFamily, desk: Desk, replicas: Replicas) -> None:
    await replicas.apply(view(FOLLOWED_HERE))
    partition = replicas.partition("orders", 0)
    producer = ProducerStamp(7, 0, 0)
    batch = encode_batch([Record(0, NOW_MS, None, b"x")], producer=producer, flags=TRANSACTIONAL)
    replicate(partition, batch, high_watermark=1)
    assert values(await fetch(family, desk, isolation_level=1)) == []
    marker = encode_marker(Marker(is_commit=False, coordinator_epoch=0), producer, offset=1, timestamp=NOW_MS)
    replicate(partition, marker, high_watermark=1)
    assert values(await fetch(family, desk, isolation_level=1)) == [], "the marker is not known to be replicated"
    replicate(partition, b"", high_watermark=2)
    found = await fetch(family, desk, isolation_level=1)
    assert [(one.producer_id, one.first_offset) for one in found.aborted_transactions] == [(7, 0)]
    assert found.last_stable_offset == 2
