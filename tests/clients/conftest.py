"""Fixtures for tests with real clients: the broker of `tests.brokers`, topics of a test's own, and the three Python clients."""

from collections.abc import Iterator

import pytest

from tests.batches import encode_batch
from tests.brokers import Broker, broker, start_broker
from tests.clients.aiokafka_client import AiokafkaClient
from tests.clients.client import Client
from tests.clients.confluent_client import ConfluentClient
from tests.clients.group_broker import group_broker
from tests.clients.kafka_python_client import KafkaPythonClient
from tests.connection import Connection
from tests.topics import create_topic, produce, topic

__all__ = ["broker", "client", "group_broker", "start_broker", "topic", "unbothered"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give kafka-python's group tests a second and a third chance.

    A race inside kafka-python 3.0.12, seen now and then on a busy machine: elected leader while its view of the cluster is being replaced,
    it finds "No partition metadata", gives out nothing, and takes what it saw before for what it assigned from, so it never looks again
    (`ConsumerCoordinator._perform_assignment`). A broker that waits 3 s before the first rebalance hides it.
    """
    for item in items:
        if "test_group" in item.nodeid and "kafka-python" in item.nodeid:
            item.add_marker(pytest.mark.flaky(reruns=2))


@pytest.fixture(params=[ConfluentClient, KafkaPythonClient, AiokafkaClient], ids=lambda kind: str(kind.name))
def client(request: pytest.FixtureRequest) -> Client:
    """The test runs once with each of the clients."""
    made: Client = request.param()
    return made


@pytest.fixture
def unbothered(broker: Broker) -> Iterator[Connection]:
    """A client that has nothing to do with the test and must not notice it: its connection and the process outlive the test."""
    name, process = create_topic(broker), broker.pid
    with broker.connect() as connection:
        assert produce(connection, name, encode_batch([b"before"])).base_offset == 0
        yield connection
        assert produce(connection, name, encode_batch([b"after"])).base_offset == 1
    assert broker.is_running
    assert broker.pid == process


@pytest.fixture
def brokers(broker: Broker) -> list[str]:
    """The flag that names the broker to a command."""
    return ["-b", broker.bootstrap_servers]
