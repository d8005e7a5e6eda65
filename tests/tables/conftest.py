"""A real broker process, a registry beside another one, and topics of a test's own. No Spark."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.brokers import start_broker
from tests.record_fixtures import broker, registry, registry_url
from tests.topics import topic
from tests.unit.cli.conftest import millstream
from tests.waiting import wait_until

__all__ = ["broker", "millstream", "registry", "registry_url", "start_broker", "topic"]

TIMEOUT_S = 300
"""The first test compiles, on a busy machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test of this folder more time than others have."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture
def wait_for_threads() -> Callable[[], None]:
    """Waits until no thread of a scan is left."""

    def is_alone() -> bool:
        return not any(thread.name.startswith("millstream-scan") for thread in threading.enumerate())

    def wait() -> None:
        wait_until(is_alone, "the threads of the scan end")

    return wait
