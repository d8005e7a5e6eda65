"""Which partitions this process copies: all of them, or its share where several processes work together."""

from typing import Protocol

from millstream.topic_partition import TopicPartition


class Assignment(Protocol):
    """Asked at every look at the topics; whoever changes what it answers rings the mirror (`Mirror.look_again`)."""

    def owns(self, partition: TopicPartition) -> bool:
        """Whether this process copies the partition now."""


class Everything:
    """One process copies all."""

    def owns(self, partition: TopicPartition) -> bool:
        return True
