"""Three brokers as processes on one tree of znodes: who leads when they are killed, stopped and come back.

What is looked at are states, as clients (Metadata) and znodes show them. A broker that is killed loses its session when the test says so.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.brokers import IS_KAFKA, Broker
from tests.cluster.brokers_on_tree import BrokersOnTree, brokers_on_tree
from tests.connection import FIND_COORDINATOR, INCREMENTAL_ALTER_CONFIGS, METADATA, Connection
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="about Millstream's own znodes")

BROKER_HEARTBEAT = 63


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokersOnTree]:
    with brokers_on_tree(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(autouse=True)
def all_run(cluster: BrokersOnTree) -> Iterator[None]:
    yield
    cluster.start(*(node_id for node_id in cluster.nodes if not cluster.nodes[node_id].is_running))


def leaders_seen_by(broker: Broker, topic: str) -> list[int]:
    with broker.connect() as connection:
        answer = connection.ask(METADATA, 12, {"topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": False})
        return [one.leader_id for one in answer.topics[0].partitions]


def others(cluster: BrokersOnTree, *node_ids: int) -> list[int]:
    return [node_id for node_id in cluster.nodes if node_id not in node_ids]


def test_another_broker_leads_after_a_kill(cluster: BrokersOnTree) -> None:
    victim = others(cluster, cluster.controller())[0]
    heir = others(cluster, victim)[0]
    topic = cluster.create([victim, heir], [heir, victim])
    cluster.kill(victim)
    wait_until(lambda: cluster.leader(topic) == heir, "another leads")
    state = cluster.state(topic)
    assert (state["leader_epoch"], state["in_sync_replicas"], state["replicas"]) == (1, [heir], [victim, heir])
    wait_until(lambda: cluster.state(topic, 1)["in_sync_replicas"] == [heir], "the dead one is in sync nowhere")
    wait_until(lambda: leaders_seen_by(cluster.nodes[heir], topic) == [heir, heir], "clients see it")
    cluster.start(victim)
    wait_until(lambda: cluster.state(topic)["in_sync_replicas"] == [heir, victim], "it catches up, and is in sync again")
    assert cluster.leader(topic) == heir


def test_a_broker_that_was_killed_leaves_the_sets_before_it_leads_again(cluster: BrokersOnTree) -> None:
    victim = others(cluster, cluster.controller())[0]
    topic = cluster.create([victim])
    cluster.kill(victim)
    wait_until(lambda: cluster.leader(topic) == -1, "no broker leads")
    assert cluster.state(topic)["last_leader"] == victim
    cluster.start(victim)
    wait_until(lambda: cluster.leader(topic) == victim, "the last leader leads again")
    wait_until(lambda: leaders_seen_by(cluster.nodes[victim], topic) == [victim], "clients see it")


def test_the_controller_and_a_leader_die_at_once(cluster: BrokersOnTree) -> None:
    first = cluster.controller()
    victim, survivor = others(cluster, first)
    topic = cluster.create([victim, survivor, first], [first, survivor, victim])
    cluster.kill(first, victim)
    wait_until(lambda: [cluster.leader(topic, number) for number in (0, 1)] == [survivor, survivor], "the successor decides about both")
    assert cluster.controller() == survivor
    assert cluster.state(topic)["in_sync_replicas"] == [survivor]


def test_a_stop_moves_leaders_first(cluster: BrokersOnTree) -> None:
    for node_id in (others(cluster, cluster.controller())[0], cluster.controller()):
        heir = others(cluster, node_id)[0]
        topic, alone = cluster.create([node_id, heir]), cluster.create([node_id])
        assert cluster.nodes[node_id].stop() == 0
        state = cluster.state(topic)
        assert (state["leader"], state["leader_epoch"], state["in_sync_replicas"]) == (heir, 1, [heir]), "before its session ended"
        assert "not handed over" not in cluster.nodes[node_id].output
        wait_until(lambda alone=alone: cluster.leader(alone) == -1, "what only it can lead has no leader")  # type: ignore[misc]
        cluster.start(node_id)
        assert (cluster.leader(alone), cluster.state(alone)["in_sync_replicas"]) == (node_id, [node_id]), "it leads that again"
        wait_until(lambda topic=topic: len(cluster.state(topic)["in_sync_replicas"]) == 2, "it is in sync again")  # type: ignore[misc]


def test_preferred_leaders_are_elected_by_an_admin_client(cluster: BrokersOnTree) -> None:
    victim = others(cluster, cluster.controller())[0]
    heir = others(cluster, victim)[0]
    topic = cluster.create([victim, heir])
    cluster.kill(victim)
    wait_until(lambda: cluster.leader(topic) == heir, "another leads")
    admin = AdminClient({"bootstrap.servers": cluster.nodes[others(cluster, victim)[1]].bootstrap_servers})
    partition = TopicPartition(topic, 0)
    (refused,) = admin.elect_leaders(ElectionType.PREFERRED, [partition]).result(20).values()
    assert refused is not None
    assert refused.code() == 80, "it is not there"
    cluster.start(victim)
    wait_until(lambda: cluster.state(topic)["in_sync_replicas"] == [heir, victim], "it is in sync again")
    (elected,) = admin.elect_leaders(ElectionType.PREFERRED, [partition]).result(20).values()
    assert elected is None
    assert (cluster.leader(topic), cluster.state(topic)["leader_epoch"]) == (victim, 2)


def test_unclean_elections_when_they_are_allowed(cluster: BrokersOnTree) -> None:
    victim, other = others(cluster, cluster.controller())
    topic = cluster.create([victim, other])
    cluster.kill(other)
    wait_until(lambda: cluster.state(topic)["in_sync_replicas"] == [victim], "one is in sync")
    cluster.kill(victim)
    wait_until(lambda: cluster.leader(topic) == -1, "no broker leads")
    cluster.start(other)
    assert cluster.leader(topic) == -1, "it may lack records"
    with cluster.nodes[cluster.controller()].connect() as connection:
        switch_on(connection, topic)
    wait_until(lambda: cluster.leader(topic) == other, "the one that is left leads, with what it has")


def switch_on(connection: Connection, topic: str) -> None:
    config = {"name": "unclean.leader.election.enable", "config_operation": 0, "value": "true"}
    resource = {"resource_type": 2, "resource_name": topic, "configs": [config]}
    answer = connection.ask(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
    assert answer.responses[0].error_code == 0, answer


def test_a_client_that_pretends_to_be_a_broker_is_refused(cluster: BrokersOnTree) -> None:
    with cluster.nodes[cluster.controller()].connect() as connection:
        answer = connection.ask(BROKER_HEARTBEAT, 1, {"broker_id": 1, "broker_epoch": 1, "want_shut_down": True})
        assert (answer.error_code, answer.should_shut_down) == (77, False)


def test_the_topic_of_offsets_grows_with_the_cluster(cluster: BrokersOnTree) -> None:
    two = others(cluster, cluster.controller())
    cluster.kill(*two)
    wait_until(lambda: cluster.tree.children("/cluster/brokers/ids") == [str(cluster.controller())], "one is left")
    with cluster.nodes[cluster.controller()].connect() as connection:
        connection.ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
    wait_until(lambda: "/cluster/brokers/topics/__consumer_offsets/partitions/49" in cluster.tree.paths, "the topic is there")
    cluster.start(*two)
    wait_until(lambda: all(len(cluster.state("__consumer_offsets", number)["replicas"]) == 3 for number in range(50)), "it has grown")
    preferred = [cluster.state("__consumer_offsets", number)["replicas"][0] for number in range(50)]
    assert max(preferred.count(node_id) for node_id in (1, 2, 3)) <= 17
