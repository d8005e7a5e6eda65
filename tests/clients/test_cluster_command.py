"""`millstream cluster status` against a real broker, ours or Apache Kafka."""

from tests.brokers import Broker
from tests.topics import create_topic
from tests.unit.cli.conftest import Millstream, millstream

__all__ = ["millstream"]


def test_the_status_of_a_cluster_of_one(millstream: Millstream, broker: Broker) -> None:
    topic = create_topic(broker, partitions=3)
    shown = millstream("cluster", "status", "-b", broker.bootstrap_servers)
    assert shown.code == 0, shown.out + shown.err
    (document,) = millstream("cluster", "status", "--json", "-b", broker.bootstrap_servers).documents
    assert document["is_well"]
    assert [one["address"] for one in document["brokers"]] == [broker.bootstrap_servers]
    assert document["brokers"][0]["leaders"] == document["partitions"] >= 3
    ((described,),) = millstream("topic", "describe", topic, "--output", "json", "-b", broker.bootstrap_servers).documents
    assert [(one["leader"], one["replicas"], one["in_sync_replicas"]) for one in described["partitions"]] == [(1, [1], [1])] * 3
