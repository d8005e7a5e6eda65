"""What brokers ask of the controller, as messages."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from millstream.broker.cluster.active_controller import ActiveController
from millstream.broker.cluster.controller_requests import ControllerRequests
from millstream.broker.handlers.controller import ControllerFamily
from millstream.client.codecs.request import MessageRequest
from millstream.cluster.controller.leader_election import ElectionRules
from millstream.coordination.election import ControllerClaim
from millstream.coordination.partition_state import PartitionState
from millstream.errors import NotController, UnknownTopicId, UnknownTopicOrPartition
from millstream.replication_errors import IneligibleReplica, InvalidUpdateVersion, StaleBrokerEpoch
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey
from tests.unit.broker.cluster.metadata_tree import FakeTree, topic_id_of
from tests.unit.broker.handlers.desk import Desk

ORDERS = TopicPartition("orders", 0)


class Rig:
    """A controller of three brokers."""

    def __init__(self) -> None:
        state = PartitionState((1, 2, 3), leader=1, leader_epoch=0, in_sync_replicas=(1, 2))
        self.tree = FakeTree({ORDERS: state}, {1: 11, 2: 12, 3: 13})
        for node_id in (1, 2, 3):
            self.tree.register(node_id, 10 + node_id)
        self.active = ActiveController(self.tree, rules=lambda _topic: ElectionRules(), own_topics=dict, doubt=lambda: None)
        self.active.view_changed(self.tree.view())
        self.active.elected(ControllerClaim(1, 1, 1))
        self.requests = ControllerRequests(self.active, view=self.tree.view)
        self.family = ControllerFamily(self.requests)
        self.desk = Desk()

    async def alter(
        self, *, version: int = 3, topic_id: UUID | None = None, index: int = 0, in_sync: dict[int, int], epoch: int = 0
    ) -> Any:
        partition = {
            "partition_index": index,
            "leader_epoch": 0,
            "partition_epoch": epoch,
            "new_isr": list(in_sync),
            "new_isr_with_epochs": [{"broker_id": one, "broker_epoch": life} for one, life in in_sync.items()],
        }
        topics = [{"topic_id": topic_id or topic_id_of("orders"), "partitions": [partition]}]
        answer = await self.desk.ask(
            self.family.alter_partition, ApiKey.ALTER_PARTITION, version, broker_id=1, broker_epoch=11, topics=topics
        )
        assert answer.error_code == 0
        return answer.topics[0].partitions[0]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    running = asyncio.create_task(rig.active.run())
    yield rig
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("version", [2, 3])
async def test_a_leader_has_its_in_sync_set_changed(rig: Rig, version: int) -> None:
    answer = await rig.alter(version=version, in_sync={1: 11, 2: 12, 3: 13})
    assert (answer.error_code, answer.leader_id, answer.leader_epoch, list(answer.isr), answer.partition_epoch) == (0, 1, 0, [1, 2, 3], 1)
    assert rig.tree.states[ORDERS].in_sync_replicas == (1, 2, 3)


async def test_every_partition_has_an_error_of_its_own(rig: Rig) -> None:
    in_sync = {1: 11, 2: 12, 3: 13}
    assert (await rig.alter(topic_id=UUID(int=9), in_sync=in_sync)).error_code == UnknownTopicId.code
    assert (await rig.alter(index=4, in_sync=in_sync)).error_code == UnknownTopicOrPartition.code
    assert (await rig.alter(in_sync={1: 11, 2: 12, 3: 99})).error_code == IneligibleReplica.code
    await rig.alter(in_sync=in_sync)
    assert (await rig.alter(in_sync={1: 11})).error_code == InvalidUpdateVersion.code


async def test_a_client_that_is_no_registered_broker_is_refused(rig: Rig) -> None:
    for broker, epoch in ((1, 10), (9, 11)):
        answer = await rig.desk.ask(rig.family.alter_partition, ApiKey.ALTER_PARTITION, 3, broker_id=broker, broker_epoch=epoch, topics=[])
        assert answer.error_code == StaleBrokerEpoch.code
        answer = await rig.desk.ask(
            rig.family.broker_heartbeat, ApiKey.BROKER_HEARTBEAT, 1, broker_id=broker, broker_epoch=epoch, want_shut_down=True
        )
        assert (answer.error_code, answer.should_shut_down) == (StaleBrokerEpoch.code, False)
    assert rig.tree.writes == []


async def test_a_broker_that_wants_to_stop_may_when_others_lead(rig: Rig) -> None:
    ask = {"broker_id": 1, "broker_epoch": 11}
    answer = await rig.desk.ask(rig.family.broker_heartbeat, ApiKey.BROKER_HEARTBEAT, 1, **ask)
    assert (answer.error_code, answer.should_shut_down, answer.is_fenced) == (0, False, False)
    answer = await rig.desk.ask(rig.family.broker_heartbeat, ApiKey.BROKER_HEARTBEAT, 1, **ask, want_shut_down=True)
    assert (answer.error_code, answer.should_shut_down) == (0, True)
    assert (rig.tree.states[ORDERS].leader, rig.tree.states[ORDERS].in_sync_replicas) == (2, (2,))


async def test_the_broker_itself_asks_without_a_connection(rig: Rig) -> None:
    fields = {"broker_id": 1, "broker_epoch": 11, "current_metadata_offset": 0, "want_fence": False, "want_shut_down": True}
    request: MessageRequest[Any] = MessageRequest(ApiKey.BROKER_HEARTBEAT, fields)
    answer = await rig.requests.carry_out(request)
    assert answer.should_shut_down
    answer = await rig.requests.carry_out(MessageRequest(ApiKey.ALTER_PARTITION, {"broker_id": 1, "broker_epoch": 11, "topics": []}))
    assert (answer.error_code, list(answer.topics)) == (0, [])


async def test_who_is_not_the_controller_says_so(rig: Rig) -> None:
    rig.active.resigned()
    answer = await rig.desk.ask(rig.family.alter_partition, ApiKey.ALTER_PARTITION, 3, broker_id=1, broker_epoch=11, topics=[])
    assert answer.error_code == NotController.code
