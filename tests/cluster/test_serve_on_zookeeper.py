"""`millstream serve --zookeeper`: one broker whose znodes are in a real ZooKeeper."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from tests.brokers import IS_KAFKA
from tests.cluster.server_process import ServerProcess
from tests.connection import METADATA
from tests.several_directories import SeveralDirectoriesBroker, content, fill
from tests.topics import create_topic, produce_values, read_all
from tests.waiting import wait_until
from tests.zookeeper_broker import ZooKeeperBroker, tree_of

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="Apache Kafka 4 knows no ZooKeeper")


@pytest.fixture
def broker(zookeeper: ServerProcess, tmp_path: Path) -> Iterator[ZooKeeperBroker]:
    started = ZooKeeperBroker(tmp_path / "broker", zookeeper.address)
    started.start()
    yield started
    started.kill()


@pytest.fixture
def tree(broker: ZooKeeperBroker) -> Iterator[KazooClient]:
    with tree_of(broker.coordination) as client:
        yield client


def test_a_broker_and_its_topics_are_in_zookeeper_and_come_back(broker: ZooKeeperBroker, tree: KazooClient) -> None:
    topic = create_topic(broker, partitions=2)
    produce_values(broker, topic, [b"kept"])
    assert tree.get_children("/brokers/ids") == ["1"]
    assert topic in tree.get_children("/brokers/topics")
    assert broker.stop() == 0
    assert tree.get_children("/brokers/ids") == []
    broker.start()
    assert tree.get_children("/brokers/ids") == ["1"]
    assert [record.value for record in read_all(broker, topic)] == [b"kept"]


def test_a_broker_outlives_a_restart_of_zookeeper_and_registers_again(
    broker: ZooKeeperBroker, tree: KazooClient, zookeeper: ServerProcess
) -> None:
    topic = create_topic(broker)
    _, stat = tree.get("/brokers/ids/1")
    # What ZooKeeper does when a session ends.
    tree.delete("/brokers/ids/1")
    zookeeper.stop()
    produce_values(broker, topic, [b"meanwhile"])
    zookeeper.start()
    # A client that comes while ZooKeeper is not ready yet is left without an answer, now and then, for as long as a session lasts.
    again = wait_until(lambda: registration(tree), "the broker is registered again", deadline_s=60)
    assert again.czxid > stat.czxid
    with broker.connect() as connection:
        wait_until(lambda: len(connection.ask(METADATA, 12, {"topics": []}).brokers) == 1, "the broker knows itself again", deadline_s=60)
    create_topic(broker)
    assert [record.value for record in read_all(broker, topic)] == [b"meanwhile"]


def registration(tree: KazooClient) -> Any:
    try:
        return tree.exists("/brokers/ids/1")
    except KazooException:
        return None


def test_a_directory_of_the_embedded_coordination_is_not_taken_to_zookeeper(broker: ZooKeeperBroker) -> None:
    broker.stop()
    (broker.data / "coordination").mkdir()
    with pytest.raises(AssertionError, match="known to its embedded coordination"):
        broker.start()


def test_zookeeper_remembers_the_data_directories_of_a_broker(zookeeper: ServerProcess, tmp_path: Path) -> None:
    chroot = f"{zookeeper.address}/millstream-{uuid4().hex[:8]}"
    broker = SeveralDirectoriesBroker(tmp_path / "broker", tmp_path / "one", tmp_path / "two", zookeeper=chroot)
    try:
        broker.start()
        topic = fill(broker)
        broker.stop()
        broker.paths = [tmp_path / "fresh"]
        refusal = broker.refusal()
        assert str(tmp_path / "one") in refusal
        assert str(tmp_path / "two") in refusal
        assert "give it another --node-id" in refusal
        broker.paths = [tmp_path / "one", tmp_path / "two"]
        broker.keeps_znodes, broker.coordination = True, ""
        assert "known to a ZooKeeper" in broker.refusal()
        broker.keeps_znodes, broker.coordination = False, chroot
        broker.start()
        assert content(broker, topic) == [b"0", b"1", b"2", b"3"]
    finally:
        broker.kill()
