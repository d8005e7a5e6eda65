"""Fixtures for tests that need a broker, there for every project in whose environment Millstream is installed.

    def test_clicks_arrive(millstream_broker):
        producer = confluent_kafka.Producer({"bootstrap.servers": millstream_broker.bootstrap_servers})

One broker serves the whole session and starts with the first test that asks for it; tests keep apart by using topics of their own. A
project that needs other options overrides `millstream_broker_options` in its `conftest.py`. The fixture `millstream_registry` is the
address of a schema registry beside that broker; it starts with the first request and costs nothing before. pytest imports this module in
every run, so it imports nothing but pytest.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from millstream.testing import Broker, OptionText


@pytest.fixture(scope="session")
def millstream_broker_options() -> "Mapping[str, OptionText]":
    """Options of the session's broker, by Kafka's names; override it to set some."""
    return {}


@pytest.fixture(scope="session")
def millstream_broker(millstream_broker_options: "Mapping[str, OptionText]") -> "Iterator[Broker]":
    """A running broker, with `bootstrap_servers` and `coordination`."""
    from millstream.registry.extra import missing_packages
    from millstream.testing import Broker

    with Broker(millstream_broker_options, registry=not missing_packages()) as broker:
        yield broker


@pytest.fixture(scope="session")
def millstream_registry(millstream_broker: "Broker") -> str:
    """The address of a schema registry beside the broker: `http://127.0.0.1:PORT`."""
    return millstream_broker.registry_url
