"""A data directory in which an older release kept all partitions inside the znodes of their topics."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.brokers import IS_KAFKA, MillstreamBroker
from tests.topics import create_topic, produce_values, read_all
from tests.zookeeper_broker import tree_of

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="Apache Kafka 4 knows no ZooKeeper")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MillstreamBroker]:
    started = MillstreamBroker(tmp_path, {})
    started.start()
    yield started
    started.kill()


def write_as_before(tree: KazooClient, topic: str) -> None:
    path = f"/brokers/topics/{topic}"
    header = json.loads(tree.get(path)[0])
    names = sorted(tree.get_children(f"{path}/partitions"), key=int)
    states = [json.loads(tree.get(f"{path}/partitions/{name}")[0]) for name in names]
    old = {"topic_id": header["topic_id"], "configs": header["configs"], "partitions": states}
    tree.delete(f"{path}/partitions", recursive=True)
    tree.set(path, json.dumps(old).encode())


def test_its_topics_come_up_with_everything_in_them(broker: MillstreamBroker) -> None:
    topics = [create_topic(broker) for _ in range(3)]
    for topic in topics:
        produce_values(broker, topic, [b"kept"])
    with tree_of(broker.coordination) as tree:
        for topic in topics:
            write_as_before(tree, topic)
        tree.delete("/changes")
        tree.set("/brokers/topics", b"")
    broker.stop()
    broker.start()
    for topic in topics:
        produce_values(broker, topic, [b"and more"])
        assert [record.value for record in read_all(broker, topic)] == [b"kept", b"and more"]
    assert list(broker.data.glob("*-stray")) == list(broker.data.glob("*-delete")) == []
    assert "makes no sense" not in broker.output
