"""A broker whose connection to ZooKeeper is interrupted again and again goes on, and is registered when it holds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kio.schema.errors import ErrorCode

from tests.brokers import IS_KAFKA
from tests.cluster.cutting_proxy import CuttingProxy
from tests.cluster.server_process import ServerProcess
from tests.connection import INCREMENTAL_ALTER_CONFIGS, INIT_PRODUCER_ID
from tests.topics import create_topic, produce_values, read_all
from tests.waiting import wait_until
from tests.zookeeper_broker import ZooKeeperBroker, tree_of

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="Apache Kafka 4 knows no ZooKeeper")


@pytest.fixture
def proxy(zookeeper: ServerProcess) -> Iterator[CuttingProxy]:
    made = CuttingProxy(zookeeper.address)
    yield made
    made.close()


@pytest.fixture
def broker(proxy: CuttingProxy, tmp_path: Path) -> Iterator[ZooKeeperBroker]:
    started = ZooKeeperBroker(tmp_path / "broker", proxy.address)
    started.start()
    yield started
    started.kill()


@pytest.fixture
def tree(broker: ZooKeeperBroker, zookeeper: ServerProcess) -> Iterator[KazooClient]:
    with tree_of(zookeeper.address + "/" + broker.coordination.partition("/")[2]) as client:
        yield client


def test_interruptions_that_follow_each_other_quickly_do_not_end_the_broker(
    broker: ZooKeeperBroker, proxy: CuttingProxy, tree: KazooClient
) -> None:
    topic = create_topic(broker)
    _, before = tree.get("/brokers/ids/1")
    # What ZooKeeper does when a session ends: so it has to register anew, and not only to look.
    tree.delete("/brokers/ids/1")
    proxy.interrupt(again=4)
    wait_until(lambda: proxy.left_to_cut == 0, "the broker has come back often enough", deadline_s=60)
    again = wait_until(lambda: tree.exists("/brokers/ids/1"), "the broker is registered again", deadline_s=60)
    assert again.czxid > before.czxid
    assert broker.is_running
    produce_values(broker, topic, [b"after"])
    assert [record.value for record in read_all(broker, topic)] == [b"after"]
    # It is controller, and sees what it writes.
    create_topic(broker)
    assert "Traceback" not in broker.output


def test_what_needs_zookeeper_is_to_be_tried_again_while_it_is_away(broker: ZooKeeperBroker, proxy: CuttingProxy) -> None:
    topic = create_topic(broker)
    proxy.close()
    resource = {"resource_type": 2, "resource_name": topic, "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1"}]}
    with broker.connect() as connection:
        connection.ask(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})
        altered = connection.ask(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]}).responses[0]
        producer = connection.ask(INIT_PRODUCER_ID, 4, {"transactional_id": None, "producer_id": -1, "producer_epoch": -1})
    assert altered.error_code in (ErrorCode.request_timed_out, ErrorCode.not_controller)
    # Any other error ends an idempotent producer, and they all are; this one makes it ask again.
    assert producer.error_code == ErrorCode.coordinator_load_in_progress
    produce_values(broker, topic, [b"meanwhile"])
    assert "Traceback" not in broker.output


def test_a_start_waits_for_a_connection_that_holds(broker: ZooKeeperBroker, proxy: CuttingProxy) -> None:
    topic = create_topic(broker)
    produce_values(broker, topic, [b"before"])
    broker.stop()
    proxy.interrupt(again=4)
    broker.start()
    assert proxy.left_to_cut == 0
    assert [record.value for record in read_all(broker, topic)] == [b"before"]
