"""A ZooKeeper that comes back without its data: the topics are not there any more, but they were not deleted."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import IS_KAFKA
from tests.cluster.server_process import ServerProcess, missing_zookeeper
from tests.topics import create_topic, produce_values, read_all
from tests.waiting import wait_until
from tests.zookeeper_broker import ZooKeeperBroker, tree_of

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="Apache Kafka 4 knows no ZooKeeper")


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[ServerProcess]:
    reason = missing_zookeeper()
    if reason is not None:
        pytest.skip(reason)
    process = ServerProcess("zookeeper", tmp_path)
    process.start()
    yield process
    process.kill()


@pytest.fixture
def broker(own_zookeeper: ServerProcess, tmp_path: Path) -> Iterator[ZooKeeperBroker]:
    started = ZooKeeperBroker(tmp_path / "broker", own_zookeeper.address)
    started.start()
    yield started
    started.kill()


def test_a_zookeeper_without_its_data_does_not_delete_the_logs(
    broker: ZooKeeperBroker, own_zookeeper: ServerProcess, tmp_path: Path
) -> None:
    topic = create_topic(broker)
    produce_values(broker, topic, [b"kept"])
    own_zookeeper.kill()
    shutil.rmtree(tmp_path / "data")
    own_zookeeper.start()
    with tree_of(own_zookeeper.address) as tree:
        # Until it has done more than the one that was lost it takes no client of that one.
        for _ in range(100):
            tree.create("/used", sequence=True)
    wait_until(lambda: "the znode /cluster_id makes no sense" in broker.output, "the broker has looked at the new tree", deadline_s=60)
    produce_values(broker, topic, [b"and written to"])
    assert [record.value for record in read_all(broker, topic)] == [b"kept", b"and written to"]
    assert broker.partition_directory(topic).exists()
    # A restart would find no topic that the logs belong to; a person decides.
    broker.stop()
    with pytest.raises(AssertionError, match="belongs to cluster"):
        broker.start()
    assert broker.partition_directory(topic).exists()
