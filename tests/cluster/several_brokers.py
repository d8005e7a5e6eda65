"""Broker processes of one cluster: the first with the embedded tree, the others in that tree by ZooKeeper's protocol."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.brokers import Broker, MillstreamBroker
from tests.connection import METADATA
from tests.waiting import wait_until
from tests.zookeeper_broker import ZooKeeperBroker


@contextmanager
def several_brokers(directory: Path, *, count: int, options: Mapping[str, object]) -> Iterator[list[Broker]]:
    """So many brokers, numbered from 1, that know each other; the first is the controller."""
    (directory / "1").mkdir()
    first = MillstreamBroker(directory / "1", options)
    started: list[Broker] = [first]
    try:
        first.start()
        for number in range(2, count + 1):
            other = ZooKeeperBroker(directory / str(number), first.coordination, node_id=number)
            other.coordination = first.coordination
            other.options = first.options
            started.append(other)
            other.start()
        for broker in started:
            with broker.connect() as connection:
                wait_until(lambda: len(connection.ask(METADATA, 12, {"topics": []}).brokers) == count, "all know each other")
        yield started
    finally:
        for broker in reversed(started):
            broker.kill()
