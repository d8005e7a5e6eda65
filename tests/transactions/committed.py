"""What a reader of committed data finds in a topic."""

from millstream import SimpleConsumer
from millstream.paper.message import ConsumedMessage
from millstream.paper.settings import Isolation


def read_committed(brokers: str, topic: str) -> list[ConsumedMessage]:
    """All messages, partition after partition."""
    with SimpleConsumer(brokers) as simple:
        return [message for partition in simple.partitions(topic) for message in read_partition(brokers, topic, partition)]


def read_partition(brokers: str, topic: str, partition: int, *, isolation: Isolation = "read_committed") -> list[ConsumedMessage]:
    """All messages of one partition."""
    found: list[ConsumedMessage] = []
    offset = 0
    with SimpleConsumer(brokers, isolation=isolation) as simple:
        while messages := simple.fetch(topic, partition, offset, max_wait_ms=1):
            found += messages
            offset = messages[-1].offset + 1
    return found
