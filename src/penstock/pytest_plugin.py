"""Fixtures for tests that need a broker, there for every project in whose environment Penstock is installed.

    def test_clicks_arrive(penstock_broker):
        producer = confluent_kafka.Producer({"bootstrap.servers": penstock_broker.bootstrap_servers})

One broker serves the whole session and starts with the first test that asks for it; tests keep apart by using topics of their own. A
project that needs other options overrides `penstock_broker_options` in its `conftest.py`. The fixture `penstock_registry` is the address of
a schema registry beside that broker; it starts with the first request and costs nothing before. pytest imports this module in every run, so
it imports nothing but pytest.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing import Broker, OptionText


@pytest.fixture(scope="session")
def penstock_broker_options() -> "Mapping[str, OptionText]":
    """Options of the session's broker, by Kafka's names; override it to set some."""
    return {}


@pytest.fixture(scope="session")
def penstock_broker(penstock_broker_options: "Mapping[str, OptionText]") -> "Iterator[Broker]":
    """A running broker, with `bootstrap_servers` and `coordination`."""
    from penstock.registry.activation import missing_packages
    from penstock.testing import Broker

    with Broker(penstock_broker_options, registry=not missing_packages()) as broker:
        yield broker


@pytest.fixture(scope="session")
def penstock_registry(penstock_broker: "Broker") -> str:
    """The address of a schema registry beside the broker: `http://127.0.0.1:PORT`."""
    return penstock_broker.registry_url
