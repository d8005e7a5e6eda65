"""Markers on one broker, without a socket: what is written, when it counts, and what is answered where it cannot be."""

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from millstream.broker.transactions.marker_writes import APPENDS_PER_TURN, MarkerResults, MarkerWrites, ProducerMarkers
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.coordination.partition_state import PartitionState
from millstream.errors import (
    CoordinatorLoadInProgress,
    InvalidProducerEpoch,
    NotLeaderOrFollower,
    PolicyViolation,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from millstream.log.config import LogConfig
from millstream.log.directories.manager import LogManager
from millstream.log.producer_state import TransactionalWrites
from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import TransactionCoordinatorFenced
from millstream.wire.batch import TRANSACTIONAL
from tests.batches import encode_batch
from tests.manual_clock import ManualClock
from tests.unit.cluster.hosting import NOW_MS, follow, replicas_on, topic_state, view_of

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
REPLICATED = PartitionState(replicas=(1, 2), leader=1, leader_epoch=3, in_sync_replicas=(1, 2))
LED_BY_2 = PartitionState(replicas=(1, 2), leader=2, leader_epoch=3, in_sync_replicas=(1, 2))


class RecordingGroups:
    """Stands in for the group coordinator."""

    def __init__(self) -> None:
        self.is_loading = False
        self.calls: list[object] = []

    def prepare(self, partition: Partition) -> None:
        if self.is_loading:
            raise CoordinatorLoadInProgress("being read")
        self.calls.append(("prepare", partition.log.log_end_offset))

    def marker_appended(self, partition: Partition, markers: ProducerMarkers, *, next_offset: int) -> None:
        self.calls.append((partition.topic, markers.producer_id, markers.is_commit, next_offset))


class Answers(list[MarkerResults]):
    """What was answered, as codes: 0 where a partition has the marker."""

    @property
    def codes(self) -> list[dict[TopicPartition, int]]:
        [results] = self
        return [{name: 0 if error is None else error.code for name, error in one.items()} for one in results]


@pytest.fixture
def replicas(logs: LogManager) -> Replicas:
    return replicas_on(logs, log_config=lambda topic: LogConfig.of(dict(topic.configs)))


def commit(
    *names: TopicPartition, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 0, is_commit: bool = True
) -> ProducerMarkers:
    return ProducerMarkers(producer_id, epoch, coordinator_epoch, is_commit, 1, names)


def write(replicas: Replicas, *markers: ProducerMarkers, timeout_ms: int = 60_000, groups: RecordingGroups | None = None) -> Answers:
    answers = Answers()
    writes = MarkerWrites(replicas, ManualClock(NOW_MS), offsets=groups)
    writes.write(markers, timeout_ms=timeout_ms, done=lambda results: answers.append([dict(one) for one in results]))
    return answers


async def test_markers_of_several_producers_are_written_and_answered_at_once(replicas: Replicas) -> None:
    await follow(replicas, view_of(topic_state(partitions=2)))
    answers = write(replicas, commit(FIRST, SECOND, FIRST), commit(FIRST, producer_id=8, is_commit=False))
    assert answers.codes == [{FIRST: 0, SECOND: 0}, {FIRST: 0}]
    assert [replicas.partition(*name).log.log_end_offset for name in (FIRST, SECOND)] == [2, 1]
    assert write(replicas) == [[]]


async def test_each_partition_has_its_own_error(replicas: Replicas) -> None:
    elsewhere = replace(topic_state("elsewhere", topic_id=UUID(int=8)), partitions=(LED_BY_2,))
    await follow(replicas, view_of(topic_state(), elsewhere))
    names = FIRST, TopicPartition("orders", 9), TopicPartition("elsewhere", 0)
    assert write(replicas, commit(*names, epoch=2, coordinator_epoch=5)).codes == [
        dict(zip(names, (0, UnknownTopicOrPartition.code, NotLeaderOrFollower.code), strict=True))
    ]
    zombies = commit(FIRST, epoch=1), commit(FIRST, epoch=2, coordinator_epoch=4)
    assert write(replicas, *zombies).codes == [{FIRST: InvalidProducerEpoch.code}, {FIRST: TransactionCoordinatorFenced.code}]
    of_no_producer = commit(FIRST, producer_id=-1), commit(FIRST, producer_id=99, epoch=-1)
    assert write(replicas, *of_no_producer).codes == [{FIRST: InvalidProducerEpoch.code}] * 2
    assert replicas.partition(*FIRST).log.log_end_offset == 1


async def test_a_topic_that_was_made_again_as_a_mirror_needs_no_marker(replicas: Replicas) -> None:
    await follow(replicas, view_of(topic_state(mirror_source="other")))
    assert write(replicas, commit(FIRST)).codes == [{FIRST: 0}]
    assert replicas.partition(*FIRST).log.log_end_offset == 0


@pytest.mark.parametrize("epoch", [0, 1])
async def test_what_is_open_in_a_topic_that_became_a_mirror_is_ended_when_it_is_none_any_more(replicas: Replicas, epoch: int) -> None:
    """The marker has the epoch of the records, or with transaction version 2 the next one."""
    await follow(replicas, view_of(topic_state()))
    log = replicas.partition(*FIRST).log
    batch = encode_batch([b"v"], timestamp=NOW_MS, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0)
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, transactional=TransactionalWrites.VERIFIED)
    await follow(replicas, view_of(topic_state(mirror_source="other")))
    others = commit(FIRST, producer_id=8)
    assert write(replicas, commit(FIRST, epoch=epoch), others).codes == [{FIRST: PolicyViolation.code}, {FIRST: 0}]
    await follow(replicas, view_of(topic_state()))
    assert write(replicas, commit(FIRST, epoch=epoch)).codes == [{FIRST: 0}]
    assert log.log_end_offset == 2


async def test_a_marker_is_answered_when_it_is_replicated(replicas: Replicas) -> None:
    await follow(replicas, view_of(replace(topic_state(), partitions=(REPLICATED,))))
    answers = write(replicas, commit(FIRST), commit(FIRST, producer_id=8))
    leader = replicas.partition(*FIRST).as_leader()
    leader.replica_fetched(2, 70, 1, 0)
    assert not answers
    leader.replica_fetched(2, 70, 2, 0)
    assert answers.codes == [{FIRST: 0}, {FIRST: 0}]


async def test_a_marker_that_is_not_replicated_in_time_is_answered_as_such(replicas: Replicas) -> None:
    await follow(replicas, view_of(replace(topic_state(), partitions=(REPLICATED,))))
    answered: asyncio.Future[MarkerResults] = asyncio.get_running_loop().create_future()
    MarkerWrites(replicas, ManualClock(NOW_MS)).write([commit(FIRST)], timeout_ms=1, done=answered.set_result)
    [results] = await asyncio.wait_for(answered, 20)
    assert isinstance(results[FIRST], RequestTimedOut)
    replicas.partition(*FIRST).as_leader().replica_fetched(2, 70, 1, 0)


async def test_a_broker_that_leads_no_longer_says_so(replicas: Replicas) -> None:
    await follow(replicas, view_of(replace(topic_state(), partitions=(REPLICATED,))))
    answers = write(replicas, commit(FIRST))
    replicas.partition(*FIRST).apply(REPLICATED._replace(leader=2, leader_epoch=4, partition_epoch=9))
    assert answers.codes == [{FIRST: NotLeaderOrFollower.code}]


async def test_thousands_of_markers_take_turns(replicas: Replicas) -> None:
    await follow(replicas, view_of(topic_state()))
    count = 2 * APPENDS_PER_TURN + 1
    answers = write(replicas, *(commit(FIRST, producer_id=number) for number in range(count)))
    log = replicas.partition(*FIRST).log
    ends = [log.log_end_offset]
    for _ in range(2):
        assert not answers
        await asyncio.sleep(0)
        ends.append(log.log_end_offset)
    assert ends == [APPENDS_PER_TURN, 2 * APPENDS_PER_TURN, count]
    assert answers.codes == [{FIRST: 0}] * count


async def test_the_group_coordinator_learns_of_markers_in_its_topic(replicas: Replicas) -> None:
    await follow(replicas, view_of(topic_state("__consumer_offsets"), topic_state(topic_id=UUID(int=8))))
    groups, name = RecordingGroups(), TopicPartition("__consumer_offsets", 0)
    assert write(replicas, commit(name, FIRST), groups=groups).codes == [{name: 0, FIRST: 0}]
    assert groups.calls == [("prepare", 0), ("__consumer_offsets", 7, True, 1)]
    groups.is_loading = True
    assert write(replicas, commit(name), groups=groups).codes == [{name: NotLeaderOrFollower.code}]
    assert replicas.partition(*name).log.log_end_offset == 1
