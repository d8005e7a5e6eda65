"""Brokers for the tests of exactly once: Millstream and Apache Kafka, both quick to abort what has timed out."""

from collections.abc import Iterator

import pytest

from tests.brokers import Broker, KafkaBroker, make_broker

OPTIONS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}


@pytest.fixture(scope="session")
def transactional_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Apache Kafka, for all tests of this folder that write in transactions."""
    shared = KafkaBroker(tmp_path_factory.mktemp("transactional-kafka"), OPTIONS)
    shared.start()
    yield shared
    shared.stop()


@pytest.fixture(scope="session")
def transactional_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Millstream, for the same tests; some of them kill it."""
    shared = make_broker(tmp_path_factory.mktemp("transactional"), OPTIONS)
    shared.start()
    yield shared
    shared.stop()


@pytest.fixture(params=["transactional_broker", "transactional_kafka"])
def peer(request: pytest.FixtureRequest) -> Broker:
    """Each of them."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Broker)
    return found
