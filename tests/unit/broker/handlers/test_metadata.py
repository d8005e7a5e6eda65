import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from millstream.broker.cluster.forwarding import RequestForwarding
from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.peers import Peers
from millstream.broker.cluster.topic_creation import TopicCreation
from millstream.broker.cluster.topics_on_demand import TopicsOnDemand
from millstream.broker.handlers.metadata import MetadataFamily
from millstream.broker.handlers.topics import TopicsFamily
from millstream.broker.network.api import Request
from millstream.broker.network.router import Router
from millstream.coordination import paths
from millstream.coordination.cluster_view import BrokerState, ClusterView, TopicState
from millstream.coordination.partition_state import PartitionState
from millstream.coordination.topic_names import OFFSETS_TOPIC
from millstream.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    InvalidTopic,
    LeaderNotAvailable,
    PolicyViolation,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from millstream.wire.api import ApiKey
from millstream.zookeeper.errors import ConnectionLost
from tests.unit.broker.handlers.desk import Desk
from tests.unit.cluster.controller.test_controller import LONG_MS, Cluster, running


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def creation(cluster: Cluster) -> TopicCreation:
    return TopicCreation(cluster.controller, LiveSettings({}, node_id=1), max_partitions_in_all=lambda: 100_000)


async def no_offsets_topic(_request: Request) -> None:
    raise CoordinatorNotAvailable("no room for the topic of offsets")


@pytest.fixture
async def family(cluster: Cluster, creation: TopicCreation) -> MetadataFamily:
    """Of the broker that is the controller."""
    settings = LiveSettings({}, node_id=1)
    router = Router([TopicsFamily(cluster.controller, creation, settings).create_topics], spawn=lambda work: work.close())
    forwarding = RequestForwarding(
        cluster.watcher,
        router.carry_out,
        node_id=1,
        broker_epoch=lambda: 1,
        new_peers=lambda: Peers(view=lambda: cluster.watcher.view, client_id="tests"),
    )
    await cluster.coordination.create(paths.CONTROLLER, b'{"broker_id": 1}')
    assert await cluster.watcher.until(lambda view: view.controller_id == 1, timeout_ms=LONG_MS)
    on_demand = TopicsOnDemand(forwarding, cluster.watcher, settings=settings)
    return MetadataFamily(lambda: cluster.watcher.view, on_demand, create={OFFSETS_TOPIC: no_offsets_topic})


async def metadata(desk: Desk, family: MetadataFamily, *names: str, may_create: bool = False) -> Any:
    topics = [{"name": name, "topic_id": None} for name in names]
    return await desk.ask(family.metadata, ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=may_create)


async def test_a_topic_is_created_only_for_those_who_allow_it(desk: Desk, family: MetadataFamily, cluster: Cluster) -> None:
    assert (await metadata(desk, family, "orders")).topics[0].error_code == UnknownTopicOrPartition.code
    found = (await metadata(desk, family, "orders", may_create=True)).topics[0]
    assert (found.error_code, found.partitions[0].leader_id) == (0, 1)
    assert found.topic_id == cluster.watcher.view.topics["orders"].topic_id


async def test_a_topic_that_cannot_be_created_for_now_is_not_there_yet(
    desk: Desk, family: MetadataFamily, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_operations: object) -> None:
        raise ConnectionLost("the connection is interrupted")

    with monkeypatch.context() as away:
        away.setattr(cluster.coordination, "multi", interrupted)
        assert (await metadata(desk, family, "orders", may_create=True)).topics[0].error_code == UnknownTopicOrPartition.code
    assert (await metadata(desk, family, "orders", may_create=True)).topics[0].error_code == 0


@pytest.mark.parametrize("may_create", [False, True])
async def test_a_name_that_no_topic_can_have_has_an_error_of_its_own(desk: Desk, family: MetadataFamily, may_create: bool) -> None:
    assert (await metadata(desk, family, "or/ders", may_create=may_create)).topics[0].error_code == InvalidTopic.code


async def test_nothing_asked_means_everything_in_version_0_and_nothing_later(desk: Desk, family: MetadataFamily, cluster: Cluster) -> None:
    await cluster.create("orders")
    assert len((await desk.ask(family.metadata, ApiKey.METADATA, 0, topics=[])).topics) == 1
    assert (await desk.ask(family.metadata, ApiKey.METADATA, 1, topics=[])).topics == ()
    assert len((await desk.ask(family.metadata, ApiKey.METADATA, 1, topics=None)).topics) == 1


async def test_a_page_ends_at_its_limit_and_goes_on_at_its_cursor(desk: Desk, family: MetadataFamily, cluster: Cluster) -> None:
    await cluster.create("a", partitions=3)
    await cluster.create("b", partitions=2)
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(10):
        page = await desk.ask(
            family.describe_topic_partitions, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=2, cursor=cursor
        )
        seen += [(topic.name, partition.partition_index) for topic in page.topics for partition in topic.partitions]
        if page.next_cursor is None:
            break
        cursor = {"topic_name": page.next_cursor.topic_name, "partition_index": page.next_cursor.partition_index}
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


async def test_a_cursor_beyond_the_end_does_not_lift_the_limit(desk: Desk, family: MetadataFamily, cluster: Cluster) -> None:
    await cluster.create("a", partitions=2)
    await cluster.create("b", partitions=5)
    cursor = {"topic_name": "a", "partition_index": 2**31 - 1}
    page = await desk.ask(
        family.describe_topic_partitions, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=2, cursor=cursor
    )
    assert sum(len(topic.partitions) for topic in page.topics) == 2


async def test_a_page_that_goes_on_in_a_topic_that_is_gone_shows_the_next_one_whole(
    desk: Desk, family: MetadataFamily, cluster: Cluster
) -> None:
    await cluster.create("b", partitions=3)
    asked = {"topics": [{"name": "a"}, {"name": "b"}], "cursor": {"topic_name": "a", "partition_index": 2}}
    key = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    page = await desk.ask(family.describe_topic_partitions, key, 0, response_partition_limit=10, **asked)
    assert [len(topic.partitions) for topic in page.topics] == [0, 3]


async def test_too_many_partitions_in_one_request_create_nothing(desk: Desk, cluster: Cluster, creation: TopicCreation) -> None:
    family = TopicsFamily(cluster.controller, creation, LiveSettings({}, node_id=1))
    topics = [{"name": f"t{number}", "num_partitions": 4000, "replication_factor": 1} for number in range(3)]
    answer = await desk.ask(family.create_topics, ApiKey.CREATE_TOPICS, 7, topics=topics, timeout_ms=20_000)
    assert [topic.error_code for topic in answer.topics] == [PolicyViolation.code] * 3
    assert cluster.watcher.view.topics == {}


async def test_a_topic_to_delete_is_named_in_one_way(desk: Desk, cluster: Cluster, creation: TopicCreation) -> None:
    family = TopicsFamily(cluster.controller, creation, LiveSettings({}, node_id=1))
    orders = await cluster.create("orders")
    asked = [{"name": None, "topic_id": None}, {"name": "orders", "topic_id": orders.topic_id}, {"name": "nothing", "topic_id": None}]
    answer = await desk.ask(family.delete_topics, ApiKey.DELETE_TOPICS, 6, topics=asked, timeout_ms=20_000)
    assert [one.error_code for one in answer.responses] == [InvalidRequest.code, InvalidRequest.code, UnknownTopicOrPartition.code]
    asked = [{"name": None, "topic_id": orders.topic_id}]
    for code in (0, UnknownTopicId.code):
        answer = await desk.ask(family.delete_topics, ApiKey.DELETE_TOPICS, 6, topics=asked, timeout_ms=20_000)
        assert answer.responses[0].error_code == code


async def test_all_who_ask_for_a_new_topic_at_the_same_time_find_it(desk: Desk, family: MetadataFamily) -> None:
    answers = await asyncio.gather(*(metadata(Desk(), family, "orders", may_create=True) for _ in range(5)))
    assert [answer.topics[0].error_code for answer in answers] == [0] * 5
    refused = await metadata(desk, family, "__transaction_state", may_create=True)
    assert refused.topics[0].error_code == UnknownTopicOrPartition.code


LIVING = {number: BrokerState(number, "localhost", 9090 + number) for number in (1, 2)}
STATES = (
    PartitionState((1, 2, 3), leader=1, leader_epoch=4, in_sync_replicas=(1, 2), eligible_leaders=(3,)),
    PartitionState((3, 1), leader=3, leader_epoch=2, in_sync_replicas=(3,)),
    PartitionState((3,), leader=-1, leader_epoch=5, in_sync_replicas=(), last_leader=3),
)
BROKEN = ClusterView(brokers=LIVING, topics={"orders": TopicState("orders", UUID(int=7), STATES)})


def describing(view: ClusterView) -> MetadataFamily:
    return MetadataFamily(lambda: view, cast(TopicsOnDemand, None), create={OFFSETS_TOPIC: no_offsets_topic})


async def test_partitions_say_who_leads_and_what_is_offline(desk: Desk) -> None:
    (topic,) = (await metadata(desk, describing(BROKEN), "orders")).topics
    found = [(one.error_code, one.leader_id, list(one.isr_nodes), list(one.offline_replicas)) for one in topic.partitions]
    not_available = LeaderNotAvailable.code
    assert found == [(0, 1, [1, 2], [3]), (not_available, -1, [3], [3]), (not_available, -1, [], [3])]


async def test_version_0_leaves_out_what_is_offline(desk: Desk) -> None:
    answer = await desk.ask(describing(BROKEN).metadata, ApiKey.METADATA, 0, topics=[])
    found = [(one.error_code, one.leader_id, list(one.replica_nodes), list(one.isr_nodes)) for one in answer.topics[0].partitions]
    assert found == [(9, 1, [1, 2], [1, 2]), (LeaderNotAvailable.code, -1, [1], []), (LeaderNotAvailable.code, -1, [], [])]


async def test_eligible_leaders_are_described(desk: Desk) -> None:
    asked = {"topics": [{"name": "orders"}], "response_partition_limit": 10, "cursor": None}
    answer = await desk.ask(describing(BROKEN).describe_topic_partitions, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, **asked)
    found = [(list(one.eligible_leader_replicas or ()), list(one.last_known_elr or ())) for one in answer.topics[0].partitions]
    assert found == [([3], []), ([], []), ([], [3])]


@pytest.mark.parametrize(("controller_id", "shown"), [(2, 2), (-1, 1), (3, 1)])
async def test_some_broker_that_is_alive_is_named_as_the_controller(desk: Desk, controller_id: int, shown: int) -> None:
    family = describing(replace(BROKEN, controller_id=controller_id))
    assert (await metadata(desk, family)).controller_id == shown
