"""Fixtures for tests that need a broker, there for every project in whose environment Millstream is installed (docs/testing.md).

    def test_clicks_arrive(millstream_broker):                 one broker for the whole session: tests use topics of their own
    def test_all_clicks_are_counted(millstream_fresh_broker):  a broker of the test's own, empty, in about 20 ms

A project that needs other options overrides `millstream_broker_options` in its `conftest.py`, and one that wants several brokers
`millstream_broker_processes`; a single test with a fresh broker adds to
them with `@pytest.mark.millstream_options({...})`. The fixture `millstream_registry` is the address of a schema registry beside the
session's broker; it starts with the first request and costs nothing before. pytest imports this module in every run, so it imports nothing
but pytest.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from millstream.testing import Broker, OptionText


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, for projects that allow only those that are."""
    config.addinivalue_line("markers", "millstream_options(options): options of this test's millstream_fresh_broker, by Kafka's names")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marker that would do nothing: the broker of the session runs already, with the options of all."""
    fixtures = getattr(item, "fixturenames", ())
    is_marked = any(marker.name == "millstream_options" for marker in item.own_markers)
    if is_marked and "millstream_broker" in fixtures and "millstream_fresh_broker" not in fixtures:
        raise pytest.UsageError("the marker millstream_options is for millstream_fresh_broker: millstream_broker is the same for all tests")


@pytest.fixture(scope="session")
def millstream_broker_options() -> "Mapping[str, OptionText]":
    """Options of the brokers, by Kafka's names; override it to set some."""
    return {}


@pytest.fixture(scope="session")
def millstream_broker_processes() -> int:
    """How many brokers the session has, each in a process of its own; 0 is one in the process of the tests. Override it to have several."""
    return 0


@pytest.fixture(scope="session")
def millstream_broker(millstream_broker_options: "Mapping[str, OptionText]", millstream_broker_processes: int) -> "Iterator[Broker]":
    """The broker of the session."""
    yield from _running(millstream_broker_options, processes=millstream_broker_processes)


@pytest.fixture
def millstream_fresh_broker(request: pytest.FixtureRequest, millstream_broker_options: "Mapping[str, OptionText]") -> "Iterator[Broker]":
    """A broker of the test's own."""
    own = [option for marker in request.node.iter_markers("millstream_options") for option in _options_of(marker).items()]
    # The marker of the test comes before those of its class and module, and wins.
    yield from _running({**millstream_broker_options, **dict(reversed(own))})


def _options_of(marker: pytest.Mark) -> "Mapping[str, OptionText]":
    if len(marker.args) != 1 or not isinstance(marker.args[0], Mapping) or marker.kwargs:
        raise pytest.UsageError('write it as @pytest.mark.millstream_options({"num.partitions": 3}): a mapping, by Kafka\'s names')
    options: Mapping[str, OptionText] = marker.args[0]
    return options


@pytest.fixture(scope="session")
def millstream_registry(millstream_broker: "Broker") -> str:
    """The address of a schema registry beside the session's broker: `http://127.0.0.1:PORT`."""
    return millstream_broker.registry_url


def _running(options: "Mapping[str, OptionText]", *, processes: int = 0) -> "Iterator[Broker]":
    from millstream.registry.extra import missing_packages
    from millstream.testing import Broker

    with Broker(options, registry=not missing_packages(), processes=processes) as broker:
        yield broker
