"""The name of one partition: a pair that can be a key and sorts by topic, then number."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A topic and the number of one of its partitions."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
