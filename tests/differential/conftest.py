"""The two brokers, started once, and which seeds and how many steps to run."""

from collections.abc import Iterator

import pytest

from tests.brokers import KafkaBroker, MillstreamBroker
from tests.clients.group_requests import await_coordinator
from tests.connection import INIT_PRODUCER_ID
from tests.differential.pair import Pair
from tests.waiting import wait_until

OPTIONS = {
    "group.initial.rebalance.delay.ms": 0,
    "log.retention.ms": -1,
    "num.partitions": 2,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
"""Nothing happens by itself, and one coordinator has all groups, so that what it says of one holds for the others."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a seed runs once for each."""
    if "seed" in metafunc.fixturenames:
        first, count = metafunc.config.getoption("first_seed"), metafunc.config.getoption("seeds")
        metafunc.parametrize("seed", range(first, first + count))


@pytest.fixture
def steps(request: pytest.FixtureRequest) -> int:
    """How many steps a scenario takes."""
    given: int = request.config.getoption("steps")
    return given


@pytest.fixture(scope="package")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Kafka and Millstream with the same options; skips where Kafka's jars are not."""
    kafka = KafkaBroker(tmp_path_factory.mktemp("kafka"), OPTIONS)
    ours = MillstreamBroker(tmp_path_factory.mktemp("millstream"), OPTIONS)
    try:
        kafka.start()
        ours.start()
        await_coordinator(kafka)
        await_coordinator(ours)
        with kafka.connect() as connection:
            # Kafka asks its controller for producer ids when somebody first wants one.
            wait_until(
                lambda: (
                    connection.ask(
                        INIT_PRODUCER_ID, 4, {"transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1}
                    ).error_code
                    == 0
                ),
                "producer ids",
            )
        yield Pair(kafka, ours)
    finally:
        ours.kill()
        kafka.kill()
