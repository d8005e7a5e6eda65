"""Messages numbered per partition, and the check that a group got all of them at least once and in order.

    value = b"<partition>:<number>"     numbers of a partition start at 0 and have no gaps

The order is that of delivery in the whole group: number n+1 of a partition never comes for the first time before number n, whoever gets
them. After a rebalance a member may start again at what was committed, so numbers may go back; they never skip.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from tests.batches import encode_batch
from tests.brokers import Broker
from tests.clients.group_consumer import Delivery, Place
from tests.topics import produce


class Numbered:
    """A topic with numbered messages in each partition."""

    def __init__(self, broker: Broker, topic: str, *, partitions: int) -> None:
        self.broker = broker
        self.topic = topic
        self.counts = dict.fromkeys(range(partitions), 0)

    @property
    def places(self) -> set[Place]:
        """Its partitions."""
        return {(self.topic, partition) for partition in self.counts}

    @property
    def total(self) -> int:
        """How many messages were written."""
        return sum(self.counts.values())

    def grow(self, partitions: int) -> None:
        """The topic has more partitions now."""
        self.counts = {partition: self.counts.get(partition, 0) for partition in range(partitions)}

    def write(self, count: int, *, batch: int = 10) -> None:
        """So many more messages in each partition, in small batches in turn."""
        with self.broker.connect() as connection:
            for start in range(0, count, batch):
                for partition in self.counts:
                    size = min(batch, count - start)
                    first = self.counts[partition]
                    values: list[bytes | None] = [b"%d:%d" % (partition, number) for number in range(first, first + size)]
                    answer = produce(connection, self.topic, encode_batch(values), partition=partition)
                    assert answer.error_code == 0, answer
                    self.counts[partition] += size

    def is_complete(self, delivered: Iterable[Delivery]) -> bool:
        """Whether each message came at least once."""
        seen = {delivery.value for delivery in tuple(delivered) if delivery.topic == self.topic}
        return len(seen) == self.total

    def check(self, delivered: Iterable[Delivery], *, at_most: int | None = None) -> None:
        """Each message came at least once (and at most so often), each at its offset, none before its predecessor."""
        highest: dict[int, int] = defaultdict(lambda: -1)
        times: Counter[bytes] = Counter()
        for delivery in delivered:
            if delivery.topic != self.topic:
                continue
            partition, number = (int(part) for part in delivery.value.split(b":"))
            assert (partition, number) == (delivery.partition, delivery.offset), delivery
            assert number <= highest[partition] + 1, f"{delivery} came before number {highest[partition] + 1} of its partition"
            highest[partition] = max(highest[partition], number)
            times[delivery.value] += 1
        for partition, count in self.counts.items():
            assert highest[partition] == count - 1, f"partition {partition}: {highest[partition] + 1} of {count} messages were delivered"
        if at_most is not None:
            assert max(times.values(), default=0) <= at_most
