"""Handing over leadership before a broker stops."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from millstream.broker.cluster import controlled_shutdown as module
from millstream.broker.cluster.controlled_shutdown import hand_over_leadership
from millstream.client.errors import BrokerUnavailable
from millstream.coordination.cluster_view import BrokerState, ClusterView, TopicState
from millstream.coordination.partition_state import PartitionState
from millstream.wire.responses.broker_heartbeat import BrokerHeartbeatResponse

LED_HERE = PartitionState((1, 2), leader=1, leader_epoch=0, in_sync_replicas=(1, 2))
LED_THERE = PartitionState((1, 2), leader=2, leader_epoch=1, in_sync_replicas=(2,))
ALONE = PartitionState.first((1,))


def view_of(*states: PartitionState, brokers: tuple[int, ...] = (1, 2)) -> ClusterView:
    registered = {number: BrokerState(number, "h", 1, epoch=number) for number in brokers}
    return ClusterView(brokers=registered, topics={"orders": TopicState("orders", UUID(int=1), states)})


class Cluster:
    """The controller, and what the view says afterwards."""

    def __init__(self, view: ClusterView, *answers: BrokerHeartbeatResponse | Exception) -> None:
        self.view = view
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    async def ask(self, request: Any, *, timeout_s: float) -> BrokerHeartbeatResponse:
        assert timeout_s > 0
        self.asked.append(dict(request.fields))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if answer.should_shut_down:
            self.view = view_of(LED_THERE, ALONE)
        return answer

    async def until(self, predicate: Callable[[ClusterView], bool], *, timeout_ms: int) -> bool:
        await asyncio.sleep(0)
        return timeout_ms > 0 and predicate(self.view)

    async def hand_over(self) -> bool:
        return await hand_over_leadership(self, node_id=1, broker_epoch=lambda: 11, view=lambda: self.view, until=self.until)


async def test_a_broker_asks_until_it_may_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.001)
    answers = (BrokerUnavailable("away"), BrokerHeartbeatResponse(error_code=77), BrokerHeartbeatResponse(should_shut_down=True))
    cluster = Cluster(view_of(LED_HERE, ALONE), *answers)
    assert await cluster.hand_over()
    assert [(asked["broker_id"], asked["broker_epoch"], asked["want_shut_down"]) for asked in cluster.asked] == [(1, 11, True)] * 3


async def test_a_broker_that_is_alone_asks_nobody() -> None:
    cluster = Cluster(view_of(ALONE, brokers=(1,)))
    assert not await cluster.hand_over()
    assert cluster.asked == []


async def test_a_broker_stops_all_the_same_when_no_controller_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.001)
    monkeypatch.setattr(module, "HAND_OVER_S", 0.05)
    cluster = Cluster(view_of(LED_HERE), *[BrokerUnavailable("away")] * 1000)
    assert not await cluster.hand_over()
