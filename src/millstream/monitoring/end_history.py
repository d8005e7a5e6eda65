"""Where partitions ended at the last samples: from it follows when a record was written, without reading it.

A group that has committed offset c has not finished the record there, which was written when the end of the partition passed c. Between
two samples the end is taken to have grown evenly. What is older than the history is not guessed (extrapolating errs by hours): then the
record itself has to be asked for (`first_timestamps`).
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from millstream.topic_partition import TopicPartition

SAMPLES: Final = 60
"""What is kept per partition; ends that did not move take two however long that lasts."""


class EndHistory:
    """Ends of partitions and when they were so."""

    def __init__(self) -> None:
        self._by_partition: dict[TopicPartition, deque[tuple[float, int]]] = {}

    def note(self, now: float, ends: Mapping[TopicPartition, int]) -> None:
        """The ends at a moment, of partitions that could be asked."""
        for partition, end in ends.items():
            known = self._by_partition.get(partition)
            if known is None or known[-1][1] > end:  # a topic that was deleted and made again, or an unclean election
                known = self._by_partition[partition] = deque(maxlen=SAMPLES)
            if len(known) > 1 and known[-1][1] == known[-2][1] == end:
                known.pop()
            known.append((now, end))

    def keep_only(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget all others."""
        kept = set(partitions)
        for partition in self._by_partition.keys() - kept:
            del self._by_partition[partition]

    def time_of(self, partition: TopicPartition, offset: int) -> float | None:
        """When the record at that offset was written; None if that is before the history, or has not happened."""
        known = self._by_partition.get(partition)
        if known is None or offset < known[0][1] or offset >= known[-1][1]:
            return None
        after = bisect_right(known, offset, key=lambda sample: sample[1])
        (begun, first), (ended, last) = known[after - 1], known[after]
        return begun + (ended - begun) * (offset - first) / (last - first)
