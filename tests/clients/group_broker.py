"""The broker that the tests of groups share: one whose timeouts are short enough for tests to see them pass."""

from collections.abc import Iterator

import pytest

from tests.brokers import Broker, make_broker
from tests.clients.group_requests import await_coordinator

GROUP_OPTIONS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 300,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.min.session.timeout.ms": 500,
    "offsets.topic.num.partitions": 3,
}


@pytest.fixture(scope="session")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with a coordinator that is ready."""
    shared = make_broker(tmp_path_factory.mktemp("groups"), GROUP_OPTIONS)
    shared.start()
    try:
        for number in range(8):
            await_coordinator(shared, f"group-{number}")
        yield shared
    finally:
        shared.stop()
