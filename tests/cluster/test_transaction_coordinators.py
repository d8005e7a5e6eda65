"""Three brokers: what was decided about a transaction is done, whichever of them goes in between."""

from collections.abc import Iterator

import pytest

from tests.batches import encode_batch
from tests.brokers import IS_KAFKA, Broker
from tests.cluster.brokers import MillstreamBrokers
from tests.connection import LIST_OFFSETS, METADATA, Connection, ConnectionEnded
from tests.raw_transactions import RawTransaction, find_coordinators, state_of
from tests.topics import LATEST, create_assigned_topic, produce
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="starts several brokers of its own")

FETCH_WAIT_MS = 20_000
OPTIONS = {
    "transaction.state.log.num.partitions": 6,
    "zookeeper.session.timeout.ms": 4_000,
    "auto.leader.rebalance.enable": "false",
    "replica.fetch.wait.max.ms": FETCH_WAIT_MS,
}
IDS = [f"id-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    with MillstreamBrokers(tmp_path_factory.mktemp("cluster"), OPTIONS) as cluster:
        yield list(cluster.nodes.values())


def log_end(broker: Broker, topic: str) -> int:
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": -1}]}]
    with broker.connect() as connection:
        answer = connection.ask(LIST_OFFSETS, 7, {"replica_id": -1, "isolation_level": 0, "topics": asked})
    return int(answer.topics[0].partitions[0].offset)


def leader_of(connection: Connection, topic: str) -> int | None:
    asked = {"topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": False}
    partitions = connection.ask(METADATA, 12, asked).topics[0].partitions
    return int(partitions[0].leader_id) if partitions else None


def is_complete(broker: Broker, transactional_id: str) -> bool:
    """Whether the coordinator of an id, whoever it is by now, has its transaction complete."""
    try:
        with broker.connect() as connection:
            place = find_coordinators(connection, transactional_id).get(transactional_id)
        if place is None:
            return False
        with Connection(("127.0.0.1", place.port)) as connection:
            return state_of(connection, transactional_id) == "CompleteCommit"
    except (OSError, ConnectionEnded):
        return False


def test_followers_notice_markers_at_once(cluster: list[Broker]) -> None:
    """A follower's fetch commits the decision, which leaves a marker for the follower: it is not to wait for its next fetch."""
    with cluster[0].connect() as connection:
        topic = create_assigned_topic(connection, [1, 2, 3], [2, 3, 1], [3, 1, 2])
        wait_until(lambda: len(find_coordinators(connection, *IDS)) == len(IDS), "coordinators")
        name, place = next(iter(find_coordinators(connection, *IDS).items()))
    with Connection(("127.0.0.1", place.port)) as connection:
        wait_until(lambda: leader_of(connection, topic) == 1, "the coordinator knows the topic")
        transaction = RawTransaction(connection, name)
        for _ in range(3):
            transaction.add(topic, 0, 1, 2)
            assert produce(connection, topic, encode_batch([b"x"]), partition=place.node_id - 1).error_code == 0
            assert transaction.end(is_commit=True) == 0
            wait_until(lambda: state_of(connection, name) == "CompleteCommit", "replicated markers", deadline_s=FETCH_WAIT_MS / 2000)


def test_next_coordinator_completes_what_the_last_one_decided_when_the_leader_of_the_partition_is_back(cluster: list[Broker]) -> None:
    first, second, third = cluster
    with first.connect() as connection:
        topic = create_assigned_topic(connection, [2])
        wait_until(lambda: len(find_coordinators(connection, *IDS)) == len(IDS), "coordinators")
        places = find_coordinators(connection, *IDS)
    assert {place.node_id for place in places.values()} == {1, 2, 3}
    transactional_id = next(key for key, place in places.items() if place.node_id == 3)
    with third.connect() as connection:
        wait_until(lambda: leader_of(connection, topic) == 2, "the coordinator knows the topic")
        transaction = RawTransaction(connection, transactional_id)
        transaction.add(topic, 0)
        second.kill()
        wait_until(lambda: leader_of(connection, topic) == -1, "the partition has no leader")
        transaction.end(is_commit=True)  # It is decided, whatever is answered while the log has lost a replica.
        wait_until(lambda: state_of(connection, transactional_id) == "PrepareCommit", "the decision")
    third.kill()
    second.start()
    wait_until(lambda: is_complete(first, transactional_id), "the next coordinator completes it", deadline_s=90)
    assert log_end(second, topic) >= 1
    third.start()
    with third.connect() as connection:
        wait_until(lambda: leader_of(connection, topic) == 2, "it is back")
