"""The leader's side of the in-sync sets: what is asked for, and what follows from each answer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from millstream.broker.replication import in_sync_changes as module
from millstream.broker.replication.in_sync_changes import InSyncChanges
from millstream.broker.storage import loop_turns
from millstream.client.errors import BrokerUnavailable
from millstream.cluster.replica_set import ReplicaSet
from millstream.coordination.cluster_view import BrokerState, ClusterView, TopicState
from millstream.coordination.partition_state import PartitionState
from millstream.replication_errors import IneligibleReplica, InvalidUpdateVersion, StaleBrokerEpoch
from millstream.wire.responses.alter_partition import AlterPartitionResponse, PartitionData, TopicData
from tests.manual_clock import ManualClock
from tests.waiting import eventually

ID = UUID(int=7)
STATE = PartitionState((1, 2, 3), leader=1, leader_epoch=4, in_sync_replicas=(1, 2), partition_epoch=5)
LAG_MS = 1000


@dataclass
class Log:
    log_end_offset: int = 10


class Leading:
    """The part of a leader that decides."""

    def __init__(self, state: PartitionState = STATE) -> None:
        self.log = Log()
        self.replica_set = ReplicaSet(1, state, high_watermark=10, epoch_start_offset=0, lag_ms=LAG_MS, now_ms=0)
        self.refusals = 0
        self.counted_after_refusal = -1
        self.now_ms: Callable[[], int] = lambda: 0

    def commit(self) -> None:
        self.replica_set.advance(self.log.log_end_offset, min_insync_replicas=1, now_ms=self.now_ms())

    def decided(self, state: PartitionState) -> None:
        self.replica_set.decided(state, now_ms=0)

    def refused(self) -> None:
        self.refusals += 1
        self.replica_set.refused()
        self.counted_after_refusal = self.counted

    def fetched(self, replica: int) -> None:
        self.replica_set.fetched(replica, 10, broker_epoch=10 + replica, log_start_offset=0, leader_end=10, now_ms=0)

    @property
    def counted(self) -> int:
        """How many followers the high watermark waits for."""
        return len(self.replica_set._counted)


@dataclass(eq=False)
class Partition:
    topic: str = "orders"
    index: int = 0
    leading: Leading | None = field(default_factory=Leading)


class Controller:
    """Answers as it is told to."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer: Callable[[dict[str, Any]], AlterPartitionResponse] = done

    async def ask(self, request: Any, *, timeout_s: float) -> AlterPartitionResponse:
        assert timeout_s > 0
        self.asked.append(dict(request.fields))
        await asyncio.sleep(0)
        return self.answer(request.fields)


def done(fields: dict[str, Any]) -> AlterPartitionResponse:
    return answers(
        fields,
        lambda one: PartitionData(
            one["partition_index"], 0, 1, one["leader_epoch"], tuple(one["new_isr"]), partition_epoch=one["partition_epoch"] + 1
        ),
    )


def refusing(code: int) -> Callable[[dict[str, Any]], AlterPartitionResponse]:
    return lambda fields: answers(fields, lambda one: PartitionData(one["partition_index"], code))


def answers(fields: dict[str, Any], answer: Callable[[dict[str, Any]], PartitionData]) -> AlterPartitionResponse:
    topics = [TopicData(topic["topic_id"], tuple(answer(one) for one in topic["partitions"])) for topic in fields["topics"]]
    return AlterPartitionResponse(topics=tuple(topics))


class Rig:
    """One led partition, and the controller."""

    def __init__(self) -> None:
        self.partition = Partition()
        self.controller = Controller()
        self.clock = ManualClock()
        self.epoch = 11
        brokers = {number: BrokerState(number, "h", 1, epoch=10 + number) for number in (1, 2, 3)}
        self.view = ClusterView(brokers=brokers, topics={"orders": TopicState("orders", ID, (STATE,))})
        self.changes = InSyncChanges(
            [self.partition],
            self.controller,
            node_id=1,
            broker_epoch=lambda: self.epoch,
            view=lambda: self.view,
            clock=self.clock,
            interval_s=lambda: 0.01,
        )

    @property
    def leading(self) -> Leading:
        assert self.partition.leading is not None
        return self.partition.leading

    def catch_up(self) -> None:
        """Replica 3 has everything."""
        self.leading.fetched(2)
        self.leading.fetched(3)
        self.changes.wanted(self.partition)


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    monkeypatch.setattr(module, "RETRY_S", 0.005)
    rig = Rig()
    running = asyncio.create_task(rig.changes.run())
    yield rig
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_follower_that_has_caught_up_joins(rig: Rig) -> None:
    rig.catch_up()
    await eventually(lambda: rig.leading.replica_set.state.in_sync_replicas == (1, 2, 3))
    (asked,) = rig.controller.asked
    assert (asked["broker_id"], asked["broker_epoch"]) == (1, 11)
    (partition,) = asked["topics"][0]["partitions"]
    assert partition["new_isr_with_epochs"] == [
        {"broker_id": 1, "broker_epoch": -1},
        {"broker_id": 2, "broker_epoch": 12},
        {"broker_id": 3, "broker_epoch": 13},
    ]
    assert (partition["leader_epoch"], partition["partition_epoch"]) == (4, 5)
    assert rig.leading.replica_set.state.partition_epoch == 6


async def test_one_that_falls_behind_leaves_with_the_next_look(rig: Rig) -> None:
    rig.clock.advance(LAG_MS + 1)
    rig.leading.log.log_end_offset = 11
    await eventually(lambda: rig.leading.replica_set.state.in_sync_replicas == (1,))
    # It may be an eligible leader now, whatever minimum the controller went by: nothing is committed without it until the view says so.
    assert rig.leading.replica_set.state.eligible_leaders == (2,)
    assert rig.leading.replica_set.advance(11, min_insync_replicas=1, now_ms=0) == 10
    rig.leading.decided(STATE._replace(in_sync_replicas=(1,), partition_epoch=6))
    assert rig.leading.replica_set.advance(11, min_insync_replicas=1, now_ms=0) == 11


async def test_a_follower_that_was_about_to_join_and_hangs_holds_the_high_watermark_only_for_its_lag(rig: Rig) -> None:
    """Nothing else is appended and nobody fetches: the next look finds it, or whoever waits with acks=all would wait for ever."""
    rig.partition.leading = leading = Leading(STATE._replace(in_sync_replicas=(1,)))
    leading.now_ms = rig.clock.monotonic_ms
    rig.controller.answer = refusing(IneligibleReplica.code)
    begun_ms = rig.clock.monotonic_ms()
    leading.replica_set.fetched(2, 10, broker_epoch=12, log_start_offset=0, leader_end=10, now_ms=begun_ms)
    leading.replica_set.fetched(2, 10, broker_epoch=12, log_start_offset=0, leader_end=10, now_ms=begun_ms)
    leading.log.log_end_offset = 11
    rig.changes.wanted(rig.partition)
    await eventually(lambda: leading.refusals > 0)
    leading.commit()
    assert leading.replica_set.high_watermark == 10, "it is not pending any more, and still about to join"
    rig.clock.advance(LAG_MS + 1)
    await eventually(lambda: leading.replica_set.high_watermark == 11)


async def test_a_leader_that_cannot_write_asks_for_the_set_without_itself(rig: Rig) -> None:
    moved = PartitionData(0, 0, 2, 5, (2,), partition_epoch=6)
    rig.controller.answer = lambda fields: answers(fields, lambda _one: moved)
    rig.changes.resign(rig.partition)
    await eventually(lambda: rig.controller.asked != [])
    (partition,) = rig.controller.asked[0]["topics"][0]["partitions"]
    assert partition["new_isr_with_epochs"] == [{"broker_id": 2, "broker_epoch": -1}]
    # Until the view brings the new leader the change stays pending.
    assert rig.leading.replica_set.state == STATE
    rig.partition.leading = None
    await eventually(lambda: not rig.changes._asked)
    assert not rig.changes._resigning


async def test_a_refusal_ends_the_wait_for_the_pending_replica(rig: Rig) -> None:
    rig.controller.answer = refusing(IneligibleReplica.code)
    rig.catch_up()
    await eventually(lambda: rig.leading.refusals > 0)
    assert rig.leading.counted_after_refusal == 1  # it asks again after a moment, and then waits again
    rig.controller.answer = done
    await eventually(lambda: rig.leading.replica_set.state.in_sync_replicas == (1, 2, 3))


@pytest.mark.parametrize("code", [InvalidUpdateVersion.code, 3, 42, 74, 108])
async def test_what_says_nothing_about_the_change_leaves_it_pending(rig: Rig, code: int) -> None:
    rig.controller.answer = refusing(code)
    rig.catch_up()
    await eventually(lambda: len(rig.controller.asked) > 2)
    assert rig.controller.asked[0] == rig.controller.asked[-1]
    assert rig.leading.counted == 2
    rig.leading.decided(STATE._replace(in_sync_replicas=(1, 2, 3), partition_epoch=6))  # the view tells
    count = len(rig.controller.asked)
    await asyncio.sleep(0.03)
    assert len(rig.controller.asked) <= count + 1


@pytest.mark.parametrize("error", [BrokerUnavailable, OSError, ImportError])
async def test_no_answer_leaves_it_pending(rig: Rig, error: type[Exception]) -> None:
    def unreachable(_fields: dict[str, Any]) -> AlterPartitionResponse:
        raise error("broker 2 is away")

    rig.controller.answer = unreachable
    rig.catch_up()
    await eventually(lambda: len(rig.controller.asked) > 1)
    assert rig.leading.counted == 2
    rig.controller.answer = lambda _fields: AlterPartitionResponse(error_code=StaleBrokerEpoch.code)
    await eventually(lambda: len(rig.controller.asked) > 4)
    assert rig.leading.counted == 2
    rig.controller.answer = done
    await eventually(lambda: rig.leading.replica_set.state.in_sync_replicas == (1, 2, 3))


@pytest.mark.parametrize("leader", [1, 3])
async def test_what_ended_the_epoch_is_not_asked_for_again_and_stays_pending(rig: Rig, leader: int) -> None:
    """It completed a reassignment, and the view has not said so yet. Other partitions do not wait for that."""

    def completed(fields: dict[str, Any]) -> AlterPartitionResponse:
        return answers(fields, lambda one: PartitionData(one["partition_index"], 0, leader, 5, (3, 1), partition_epoch=6))

    rig.controller.answer = completed
    rig.catch_up()
    await eventually(lambda: rig.controller.asked and not rig.changes._asked)
    rig.changes.wanted(rig.partition)
    await asyncio.sleep(0.03)
    assert len(rig.controller.asked) == 1
    assert rig.leading.counted == 2
    assert rig.leading.replica_set.state == STATE


async def test_thousands_of_changes_are_asked_for_in_portions(rig: Rig) -> None:
    partitions = [Partition(index=number) for number in range(2 * module.MOST_IN_ONE + 1)]
    states = (STATE,) * len(partitions)
    rig.view = rig.view.with_topics({"orders": TopicState("orders", ID, states)})
    rig.changes._partitions = partitions
    for partition in partitions:
        assert partition.leading is not None
        partition.leading.fetched(2)
        partition.leading.fetched(3)
        rig.changes.wanted(partition)
    await eventually(lambda: all(one.leading is not None and one.leading.replica_set.state.partition_epoch == 6 for one in partitions))
    assert [len(asked["topics"][0]["partitions"]) for asked in rig.controller.asked] == [module.MOST_IN_ONE, module.MOST_IN_ONE, 1]


async def test_others_have_their_turns_while_thousands_of_partitions_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_turns, "TURN_S", -1.0)  # whatever is done took too long
    looked_at: list[object] = []
    consider = InSyncChanges._consider

    def counted(changes: InSyncChanges, *arguments: Any) -> None:
        looked_at.append(arguments[0])
        consider(changes, *arguments)

    monkeypatch.setattr(InSyncChanges, "_consider", counted)
    collecting = asyncio.create_task(Rig().changes._collect(Partition(index=number) for number in range(1000)))
    longest = last = 0
    while not collecting.done():
        await asyncio.sleep(0)
        longest, last = max(longest, len(looked_at) - last), len(looked_at)
    assert (len(looked_at), longest) == (1000, loop_turns.AT_ONCE)


async def test_what_a_former_role_asked_for_is_forgotten(rig: Rig) -> None:
    rig.controller.answer = refusing(InvalidUpdateVersion.code)
    rig.catch_up()
    await eventually(lambda: len(rig.controller.asked) > 0)
    rig.partition.leading = None
    await eventually(lambda: not rig.changes._asked)


async def test_a_broker_that_is_not_registered_asks_for_nothing(rig: Rig) -> None:
    rig.epoch = -1
    rig.catch_up()
    await asyncio.sleep(0.03)
    assert rig.controller.asked == []
    assert rig.leading.counted == 1
