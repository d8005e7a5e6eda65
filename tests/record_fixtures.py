"""Fixtures of tests that read topics as tables, with Spark or without: a broker that keeps old records, and a registry."""

from collections.abc import Iterator

import pytest

from millstream.registry.client import RegistryClient
from millstream.testing import Broker as InProcessBroker
from tests.brokers import Broker, make_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker process for all tests; it keeps records of any age, because tests write some of long ago."""
    shared = make_broker(tmp_path_factory.mktemp("broker"), {"log.retention.ms": -1})
    shared.start()
    yield shared
    shared.stop()


@pytest.fixture(scope="session")
def registry_url() -> Iterator[str]:
    """A schema registry of its own broker; nothing else in these tests uses that one."""
    with InProcessBroker(registry=True) as holder:
        yield holder.registry_url


@pytest.fixture
def registry(registry_url: str) -> Iterator[RegistryClient]:
    """A client of the registry."""
    with RegistryClient(registry_url) as client:
        yield client
