"""Znodes with content that makes no sense: the broker says which, goes on with what it knew, and loses nothing by a restart."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kio.schema.errors import ErrorCode

from tests.brokers import IS_KAFKA, MillstreamBroker
from tests.cluster.server_process import ServerProcess
from tests.connection import DESCRIBE_QUORUM, INIT_PRODUCER_ID, Connection
from tests.topics import LATEST, create_topic, list_offset, produce_values, read_all
from tests.waiting import wait_until
from tests.zookeeper_broker import ZooKeeperBroker, tree_of

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="Apache Kafka 4 knows no ZooKeeper")


@pytest.fixture(params=["embedded", "ZooKeeper"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MillstreamBroker]:
    if request.param == "embedded":
        (tmp_path / "broker").mkdir()
        started = MillstreamBroker(tmp_path / "broker", {})
    else:
        zookeeper: ServerProcess = request.getfixturevalue("zookeeper")
        started = ZooKeeperBroker(tmp_path / "broker", zookeeper.address)
    started.start()
    yield started
    started.kill()


@pytest.fixture
def tree(broker: MillstreamBroker) -> Iterator[KazooClient]:
    with tree_of(broker.coordination) as client:
        yield client


@pytest.mark.parametrize(("below", "field"), [("", "partitions"), ("/partitions/0", "leader_epoch")])
def test_a_topic_with_a_wrong_type_in_its_znode_goes_on_and_is_not_lost_by_a_restart(
    broker: MillstreamBroker, tree: KazooClient, below: str, field: str
) -> None:
    topic = create_topic(broker)
    produce_values(broker, topic, [b"kept"])
    path = f"/brokers/topics/{topic}{below}"
    content, _ = tree.get(path)
    tree.set(path, json.dumps({**json.loads(content), field: "0"}).encode())
    tree.set("/changes", b"")  # so that everything is read again
    wait_until(lambda: f"the znode {path} makes no sense" in broker.output, "it says which znode is wrong")
    produce_values(broker, topic, [b"as before"])
    # After a restart nothing is known of the topic: it cannot be used, but its log stays where it is.
    broker.stop()
    broker.start()
    assert broker.output.count("makes no sense") == 1
    with broker.connect() as connection:
        assert list_offset(connection, topic, LATEST).error_code == ErrorCode.unknown_topic_or_partition
    assert broker.partition_directory(topic).exists()
    other = create_topic(broker)
    produce_values(broker, other, [b"others go on"])
    tree.set(path, content)
    tree.set("/changes", tree.get("/changes")[0])
    with broker.connect() as connection:
        wait_until(lambda: list_offset(connection, topic, LATEST).error_code == 0, "the topic is back")
    assert [record.value for record in read_all(broker, topic)] == [b"kept", b"as before"]
    produce_values(broker, topic, [b"after"])
    assert len(read_all(broker, topic)) == 3


def is_controller_elected(connection: Connection) -> bool:
    quorum = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    found = connection.ask(DESCRIBE_QUORUM, 0, quorum).topics[0].partitions[0]
    return bool(found.leader_id == 1 and found.leader_epoch > 0)


@pytest.mark.parametrize("nonsense", [b"", b'{"next": "0", "broker_id": "1", "host": 7}'])
def test_whatever_is_in_the_other_znodes_the_broker_serves(broker: MillstreamBroker, tree: KazooClient, nonsense: bytes) -> None:
    topic = create_topic(broker)
    tree.ensure_path("/producer_ids")
    for path in ("/controller_epoch", "/producer_ids", "/brokers/directories/1", "/brokers/ids/1"):
        tree.set(path, nonsense)
    for path in ("/config/brokers/1", "/config/brokers/<default>", "/config/brokers/nobody", "/brokers/ids/-1", "/brokers/topics/no"):
        tree.create(path, nonsense)
    for path in ("/changes", "/brokers/topics"):
        tree.set(path, nonsense)
    wait_until(lambda: "/config/brokers/nobody makes no sense" in broker.output, "it was read")
    produce_values(broker, topic, [b"one"])
    with broker.connect() as connection:
        answer = connection.ask(INIT_PRODUCER_ID, 4, {"transactional_id": None, "producer_id": -1, "producer_epoch": -1})
        assert answer.error_code == ErrorCode.coordinator_load_in_progress
        # The controller cannot write while its epoch is not its own, and takes it back.
        wait_until(lambda: is_controller_elected(connection), "the controller has an epoch again")
    create_topic(broker)
    broker.stop()
    broker.start()
    produce_values(broker, topic, [b"two"])
    create_topic(broker)
    assert [record.value for record in read_all(broker, topic)] == [b"one", b"two"]
    assert "Traceback" not in broker.output
