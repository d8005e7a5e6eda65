"""What only the controller can do, while there is none: asked of another broker it waits for the next one."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import IS_KAFKA, MillstreamBroker
from tests.cluster.brokers import MillstreamBrokers
from tests.cluster.server_process import ServerProcess
from tests.connection import CREATE_TOPICS, METADATA
from tests.topics import fresh_name

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="starts several brokers of its own")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[MillstreamBroker]]:
    """Two, whose tree is in neither of them; the first is the controller."""
    tree = ServerProcess("embedded", tmp_path)
    tree.start()
    try:
        cluster = MillstreamBrokers(tmp_path, {}, zookeeper=f"{tree.address}/cluster", count=2, session_timeout_ms=4000)
        cluster.start(1)
        with cluster:
            assert cluster.controller() == 1
            yield list(cluster.nodes.values())
    finally:
        tree.stop()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_topic_is_created_by_the_next_controller(brokers: list[MillstreamBroker], how: signal.Signals) -> None:
    os.kill(brokers[0].pid, how)
    entry = {"name": fresh_name(), "num_partitions": 1, "replication_factor": 1}
    with brokers[1].connect(timeout_s=60) as connection:
        created = connection.ask(CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 50_000}).topics[0]
        assert created.error_code == 0, created
        assert connection.ask(METADATA, 12, {"topics": []}).controller_id == 2
    assert "broker 2 is the controller, epoch " in brokers[1].stderr.read_text()
