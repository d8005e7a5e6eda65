"""Brokers with metrics, and what Prometheus reads there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import MillstreamBroker
from tests.monitoring.published import PublishingBroker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishingBroker]:
    """One broker for all tests that do not disturb each other."""
    shared = PublishingBroker(tmp_path_factory.mktemp("broker"), {"offsets.topic.num.partitions": 3})
    shared.start()
    yield shared
    shared.stop()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[MillstreamBroker]:
    """A broker of one test, not started yet."""
    own = PublishingBroker(tmp_path, {})
    yield own
    own.kill()
