"""A real broker process, a registry beside another one, and topics of a test's own. No Spark."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millstream.registry.client import RegistryClient
from millstream.testing import Broker as InProcessBroker
from tests.brokers import Broker, make_broker, start_broker
from tests.topics import topic
from tests.unit.cli.conftest import millstream
from tests.waiting import wait_until

__all__ = ["millstream", "start_broker", "topic"]

TIMEOUT_S = 300
"""The first test compiles, on a busy machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test of this folder more time than others have."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker process for all tests; it keeps records of any age, because tests write some of long ago."""
    shared = make_broker(tmp_path_factory.mktemp("broker"), {"log.retention.ms": -1})
    shared.start()
    yield shared
    shared.stop()


@pytest.fixture(scope="session")
def registry_url() -> Iterator[str]:
    """A schema registry of its own broker."""
    with InProcessBroker(registry=True) as holder:
        yield holder.registry_url


@pytest.fixture
def registry(registry_url: str) -> Iterator[RegistryClient]:
    """A client of the registry."""
    with RegistryClient(registry_url) as client:
        yield client


@pytest.fixture
def wait_for_threads() -> Callable[[], None]:
    """Waits until no thread of a scan is left."""

    def is_alone() -> bool:
        return not any(thread.name.startswith("millstream-scan") for thread in threading.enumerate())

    def wait() -> None:
        wait_until(is_alone, "the threads of the scan end")

    return wait
