"""All that this process copies, by topic: what readers, writers and the status share."""

from collections.abc import Callable, Iterator
from typing import Protocol

from millstream.mirror.bell import Bell
from millstream.mirror.copying.copied_batches import CopiedBatches
from millstream.mirror.copying.mirrored_topic import MirroredTopic
from millstream.mirror.copying.partition_copy import PartitionCopy, Phase
from millstream.topic_partition import TopicPartition


class Audit(Protocol):
    """Counts what the target has."""

    def copied(self, partition: TopicPartition, batches: CopiedBatches) -> None:
        """The target has these batches."""

    def found(self, partition: TopicPartition, *, audited: int, start: int, end: int) -> None:
        """The target begins and ends there, and reports were published up to `audited`, as far as is known; -1: nothing is."""

    def audited_to(self, partition: TopicPartition) -> int:
        """Up to where reports have been published; -1 if that is not known."""


IsPaused = Callable[[str], bool]
"""Whether a topic is paused."""


def _is_never_paused(_topic: str) -> bool:
    return False


class Copies:
    """Topics and partitions that are mirrored."""

    def __init__(self) -> None:
        self.topics: dict[str, MirroredTopic] = {}
        self.audit: Audit | None = None
        self.source_bells: dict[int, Bell] = {}
        """Of the reader of each broker of the source: more can be fetched."""
        self.target_bells: dict[int, Bell] = {}
        """Of the writer of each broker of the target: something was fetched."""
        self.is_paused: IsPaused = _is_never_paused
        self.attention = Bell()
        """Something has to begin again, or to be looked up anew."""

    def __iter__(self) -> Iterator[PartitionCopy]:
        for topic in list(self.topics.values()):
            yield from list(topic.copies.values())

    @property
    def held_bytes(self) -> int:
        """Bytes that were fetched and are not confirmed."""
        return sum(copy.held_bytes for copy in self)

    def pause(self, is_paused: IsPaused) -> None:
        """From now on copy nothing of paused topics, and go on with others; what was fetched goes on its way."""
        self.is_paused = is_paused
        for copy in self:
            has_changed = copy.is_paused != is_paused(copy.name.topic)
            copy.is_paused ^= has_changed
            if has_changed and not copy.is_paused:
                self.call_reader(copy)

    def progress_ms(self, now_ms: int) -> int | None:
        """Up to which time of messages everything is copied, but for partitions that are stopped; None if that is not known."""
        behind = [copy.last_timestamp for copy in self if copy.lag != 0 and copy.phase is not Phase.STOPPED]
        return None if -1 in behind else min([now_ms, *behind])

    def failed(self, copy: PartitionCopy, reason: str, *, now: float) -> None:
        """The copy has to begin again."""
        copy.failed(reason, now=now)
        self.attention.ring()

    def call_reader(self, copy: PartitionCopy) -> None:
        """More of the partition can be fetched."""
        if copy.source_leader in self.source_bells:
            self.source_bells[copy.source_leader].ring()

    def call_writer(self, copy: PartitionCopy) -> None:
        """Something of the partition can be appended."""
        if copy.target_leader in self.target_bells:
            self.target_bells[copy.target_leader].ring()
