"""Fixtures: a broker (Millstream, or Kafka with MILLSTREAM_TEST_PEER=kafka), and topics with tiers that report."""

import itertools
from collections.abc import Iterator

import pytest

from tests.auditor.audited_topic import AuditedTopic
from tests.auditor.auditor_process import AuditorProcess
from tests.brokers import Broker, MillstreamBroker, make_broker, start_broker

__all__ = ["start_broker"]

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests that do not disturb each other; its own auditor would share the work of those that tests start."""
    shared = make_broker(tmp_path_factory.mktemp("broker"), {})
    if isinstance(shared, MillstreamBroker):
        shared.flags.append("--no-audit")
    shared.start()
    yield shared
    shared.stop()


@pytest.fixture
def topic(broker: Broker) -> Iterator[AuditedTopic]:
    """A topic that no other test uses."""
    with AuditedTopic(broker.bootstrap_servers, f"orders-{next(NUMBERS)}") as topic:
        yield topic


@pytest.fixture
def auditors() -> Iterator[list[AuditorProcess]]:
    """Auditors that a test starts; they are ended with it."""
    started: list[AuditorProcess] = []
    yield started
    for auditor in started:
        auditor.kill()
