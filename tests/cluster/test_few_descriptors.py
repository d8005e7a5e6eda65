"""A broker with fewer file descriptors than partitions: another one leads what it cannot write to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.batches import encode_batch
from tests.brokers import IS_KAFKA, MillstreamBroker
from tests.cluster.brokers_on_tree import BrokersOnTree
from tests.cluster.tree_in_thread import TreeInThread
from tests.connection import Connection
from tests.topics import produce
from tests.waiting import wait_until

pytestmark = [pytest.mark.skipif(IS_KAFKA, reason="about Millstream's own files and znodes"), pytest.mark.slow]

DESCRIPTORS = 300
PARTITIONS = 330
NO_ERROR, STORAGE_ERROR = 0, 56


def limit_descriptors(broker: MillstreamBroker) -> None:
    """It is started with so few that not all its logs can be open at the same time."""
    unlimited = broker.command
    broker.command = lambda: ["sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh", *unlimited()]  # type: ignore[method-assign]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokersOnTree]:
    """Broker 2 has few descriptors, broker 1 as many as it needs and is the controller."""
    tree = TreeInThread(tmp_path / "tree")
    tree.start()
    try:
        brokers = BrokersOnTree(tmp_path, tree, count=2)
        limit_descriptors(brokers.nodes[2])
        brokers.start(1)
        with brokers:
            yield brokers
    finally:
        tree.stop()


def send(connection: Connection, topic: str, partition: int) -> int:
    return int(produce(connection, topic, encode_batch([b"value"]), partition=partition, acks=1).error_code)


def test_what_cannot_be_written_to_is_led_by_another_replica(cluster: BrokersOnTree) -> None:
    few, many = cluster.nodes[2], cluster.nodes[1]
    topic = cluster.create(*[[2, 1]] * PARTITIONS)
    alone = cluster.create([2])
    with few.connect() as connection, many.connect() as other:
        wait_until(lambda: send(connection, topic, 0) == NO_ERROR, "it leads")
        codes = {number: send(connection, topic, number) for number in range(PARTITIONS)}
        refused = [number for number, code in codes.items() if code != NO_ERROR]
        assert refused
        assert {codes[number] for number in refused} == {STORAGE_ERROR}, "which clients come back after"
        wait_until(lambda: all(cluster.leader(topic, number) == 1 for number in refused), "broker 1 leads what was refused")
        for number in refused:
            wait_until(lambda number=number: send(other, topic, number) == NO_ERROR, f"partition {number} is written to")  # type: ignore[misc]
        assert cluster.leader(topic, 0) == 2, "what it can write to it leads"
        assert send(connection, topic, 0) == NO_ERROR
        # Nobody else has this one: it stays, and is refused for as long as there is no descriptor.
        assert send(connection, alone, 0) == STORAGE_ERROR
        assert cluster.leader(alone) == 2
    assert few.is_running
    assert few.output.count("raise `ulimit -n` and restart the broker") == 2, (
        "once for the number of partitions, once for the first refused"
    )
    assert "Traceback" not in few.output
