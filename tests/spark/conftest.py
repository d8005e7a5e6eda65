"""One real Spark for all tests of this folder, and a real broker process beside it.

The session takes seconds to start and its first query some more, so all tests share it: `local[2]`, no web page, few shuffle partitions.
Topics, checkpoints and tables are each test's own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from millstream.spark.session import NoJava, check_java, start_session
from tests.brokers import start_broker
from tests.record_fixtures import broker, registry, registry_url
from tests.spark.cluster_fixtures import master, zipped
from tests.spark.transactional_peers import peer, transactional_broker, transactional_kafka
from tests.topics import topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "broker",
    "master",
    "peer",
    "registry",
    "registry_url",
    "start_broker",
    "topic",
    "transactional_broker",
    "transactional_kafka",
    "zipped",
]

SPARK_OPTIONS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # A test asks a stream for its progress more often than a person does.
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.sql.streaming.noDataProgressEventInterval": "100ms",
    # A Python process takes long to start on a busy machine.
    "spark.python.authenticate.socketTimeout": "90s",
}


TIMEOUT_S = 600
"""For one test: the first ones pay for Spark's start and for compiling, and a signal in the middle of a call into the JVM spoils the
session for all that follow. Tests have deadlines of their own for what they wait for."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test of this folder more time than others have."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
            # Spark gives the process that plans a stream ten seconds to start, which cannot be set: too few where many tests run at once.
            item.add_marker(pytest.mark.flaky(reruns=5, only_rerun="connect back"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """The Spark session of all tests; skips them, and says why, where there is no Java."""
    try:
        check_java()
    except NoJava as error:
        pytest.skip(str(error))
    options = SPARK_OPTIONS | {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = start_session("millstream-tests", master="local[2]", options=options)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A directory where one streaming query keeps its progress."""
    return str(tmp_path / "checkpoint")
