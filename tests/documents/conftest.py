"""The brokers of a page, and the Spark that all pages share."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.brokers import MillstreamBroker
from tests.documents.page import USUAL_BROKER, Page
from tests.spark.conftest import TIMEOUT_S, spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]

BESIDE = {"coordination": "127.0.0.1:2181", "registry": "127.0.0.1:8081", "metrics": "127.0.0.1:9308"}
"""What the usual broker has beside it, and where pages say that it is."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give a page with Spark in it what the tests of Spark have: time, and another try where too many run at once."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
            # As in tests/spark: ten seconds for the process that plans a stream, which cannot be set.
            item.add_marker(pytest.mark.flaky(reruns=5, only_rerun="connect back"))


@pytest.fixture
def addresses(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, str]]:
    """What the page calls its brokers and what is beside them, and where they are; the first one is that of commands without an address."""
    started: list[MillstreamBroker] = []
    found: dict[str, str] = {}
    try:
        for shown in page.brokers:
            broker = serving_broker(tmp_path / f"broker{len(started)}")
            started.append(broker)
            broker.start()
            places = places_of(broker)
            found[shown] = places["broker"]
            if shown == USUAL_BROKER:
                found["millstream-data"] = str(broker.data)
                found |= {usual: places[name] for name, usual in BESIDE.items()}
                monkeypatch.setenv("MILLSTREAM_REGISTRY", f"http://{places['registry']}")
        monkeypatch.setenv("MILLSTREAM_BROKERS", found[page.brokers[0]])
        yield found
    finally:
        for broker in started:
            broker.stop()


def serving_broker(directory: Path) -> MillstreamBroker:
    """A broker as `millstream serve` is without options, but for the ports."""
    directory.mkdir()
    broker = MillstreamBroker(directory, {})
    broker.flags = ["--registry", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    return broker


def places_of(broker: MillstreamBroker) -> dict[str, str]:
    """The pairs of its ready line."""
    words = broker.stdout.read_text().removeprefix("ready:").split()
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.fixture
def lazy_spark(request: pytest.FixtureRequest) -> "Callable[[], SparkSession]":
    """Starts the session of all pages with the first snippet that uses it; skips the rest of the page where there is no Java."""
    return lambda: request.getfixturevalue("spark")
