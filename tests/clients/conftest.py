"""Fixtures for tests with real clients: the broker of `tests.brokers`, topics of a test's own, and the three Python clients."""

import pytest

from tests.brokers import broker, start_broker
from tests.clients.aiokafka_client import AiokafkaClient
from tests.clients.client import Client
from tests.clients.confluent_client import ConfluentClient
from tests.clients.kafka_python_client import KafkaPythonClient
from tests.topics import topic

__all__ = ["broker", "client", "start_broker", "topic"]


@pytest.fixture(params=[ConfluentClient, KafkaPythonClient, AiokafkaClient], ids=lambda kind: str(kind.name))
def client(request: pytest.FixtureRequest) -> Client:
    """The test runs once with each of the clients."""
    made: Client = request.param()
    return made
