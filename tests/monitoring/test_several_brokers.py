"""Two brokers: each publishes its own, so that sums over both are right, and lags are known of partitions that another one leads."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.brokers import MillstreamBroker
from tests.cluster.brokers import MillstreamBrokers
from tests.group_offsets import commit, find
from tests.monitoring.published import FLAGS, series
from tests.topics import create_assigned_topic, fresh_name, produce_values
from tests.waiting import wait_until

OPTIONS = {"offsets.topic.num.partitions": 2, "offsets.topic.replication.factor": 1, "replica.lag.time.max.ms": 3000}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MillstreamBrokers]:
    brokers = MillstreamBrokers(tmp_path_factory.mktemp("cluster"), OPTIONS, count=2)
    for node in brokers.nodes.values():
        node.flags = list(FLAGS)
    with brokers as running:
        yield running


def both(cluster: MillstreamBrokers) -> tuple[dict[str, float], dict[str, float]]:
    return series(cluster.nodes[1]), series(cluster.nodes[2])


def group_coordinated_by(cluster: MillstreamBrokers, node_id: int) -> str:
    names = (fresh_name("group") for _ in range(100))
    return next(name for name in names if coordinator_of(cluster, name) == node_id)


def coordinator_of(cluster: MillstreamBrokers, group: str) -> int:
    with cluster.nodes[1].connect() as connection:
        wait_until(lambda: find(connection, group)[0].error_code == 0, "a coordinator")
        return int(find(connection, group)[0].node_id)


def test_partition_and_cluster_are_published_once(cluster: MillstreamBrokers) -> None:
    with cluster.nodes[1].connect() as connection:
        topic = create_assigned_topic(connection, (1, 2), (2, 1), (2, 1))

    def is_published() -> bool:
        names = [name for one in both(cluster) for name in one if name.startswith(f'kafka_topic_partition_leader{{topic="{topic}"')]
        return len(names) == len(set(names)) == 3

    wait_until(is_published, "three partitions, each by its leader")
    first, second = both(cluster)
    assert Counter([*first, *second])[f'kafka_topic_partitions{{topic="{topic}"}}'] == 1
    assert Counter([*first, *second])["kafka_brokers"] == 1
    controllers = "kafka_controller_kafkacontroller_activecontrollercount"
    assert first[controllers] + second[controllers] == 1
    sizes = [name for one in (first, second) for name in one if name.startswith("kafka_log_log_size{") and topic in name]
    assert len(sizes) == 6
    in_sync = f'kafka_topic_partition_in_sync_replica{{topic="{topic}",partition="0"}}'
    wait_until(lambda: series(cluster.nodes[1])[in_sync] == 2, "both replicas in sync")


@pytest.mark.parametrize("coordinator", [1, 2])
def test_coordinator_knows_the_lag_of_partitions_that_another_broker_leads(cluster: MillstreamBrokers, coordinator: int) -> None:
    other = cluster.nodes[3 - coordinator]
    with cluster.nodes[1].connect() as connection:
        topic = create_assigned_topic(connection, (other.node_id,))
    wait_until(lambda: _is_led(cluster, topic), "the leader")
    produce_values(other, topic, [b"x"] * 10)
    group = group_coordinated_by(cluster, coordinator)
    with cluster.nodes[coordinator].connect() as connection:
        wait_until(lambda: commit(connection, group, topic, 4) == 0, "a commit")
    labels = f'{{consumergroup="{group}",topic="{topic}",partition="0"}}'
    wait_until(lambda: series(cluster.nodes[coordinator]).get(f"kafka_consumergroup_lag{labels}") == 6, "the lag")
    assert f"kafka_consumergroup_lag{labels}" not in series(other)
    found = series(cluster.nodes[coordinator])
    assert any(name.startswith("kafka_consumergroup_group_lag_seconds{") and f'group="{group}"' in name for name in found)


def _is_led(cluster: MillstreamBrokers, topic: str) -> bool:
    return any(f'kafka_topic_partition_leader{{topic="{topic}",partition="0"}}' in one for one in both(cluster))


def test_leadership_that_moves_is_a_line_in_the_log(cluster: MillstreamBrokers) -> None:
    with cluster.nodes[1].connect() as connection:
        topic = create_assigned_topic(connection, (2, 1))
    wait_until(lambda: _is_led(cluster, topic), "the leader")
    stays, goes = cluster.nodes[1], cluster.nodes[2]
    assert "broker 1 is the controller" in goes.stderr.read_text()
    goes.stop()
    wait_until(lambda: f"{topic}-0" in _lines_with(stays, "this broker leads"), "a line about the new leader")
    wait_until(lambda: "broker 2" in _lines_with(stays, "decided anew"), "a line of the controller")


def _lines_with(broker: MillstreamBroker, words: str) -> str:
    return "\n".join(line for line in broker.stderr.read_text().splitlines() if words in line)
