"""What one tier counted of one bucket, summed over its reports: numbers, and the offsets of each partition where they are known.

Adding is a union: it may happen in any order, offsets that come again are `repeated` and nothing else, and two sums can be merged. Where a
tier knows offsets a count that is repeated in part has bytes and malformed messages in proportion.
"""

from collections.abc import Iterator, Mapping

from millstream.audit.offset_set import EMPTY, OffsetSet
from millstream.audit.reports.report import ANY_PARTITION, Count, Delay


class TierCount:
    """The sum of counts of one tier."""

    __slots__ = ("aborted", "bytes", "control", "delay", "delayed", "malformed", "offsets", "repeated", "unplaced")

    def __init__(self) -> None:
        self.offsets: dict[int, OffsetSet] = {}
        """Per partition."""
        self.unplaced: dict[int, int] = {}
        """Per partition, messages that were counted without their offsets."""
        self.bytes = 0
        self.repeated = 0
        self.malformed = 0
        self.control = 0
        self.aborted = 0
        self.delay: Delay | None = None
        self.delayed = 0
        """Messages that `delay` is about."""

    @property
    def count(self) -> int:
        """Messages, each once."""
        return sum(map(len, self.offsets.values())) + sum(self.unplaced.values())

    @property
    def is_exact(self) -> bool:
        """Whether the offset of every message is known."""
        return not self.unplaced and all(offsets.is_exact for offsets in self.offsets.values())

    @property
    def knows_partitions(self) -> bool:
        """Whether the partition of every message is known."""
        return ANY_PARTITION not in self.unplaced

    def of_partition(self, partition: int) -> int:
        """Messages of one partition."""
        return len(self.offsets.get(partition, EMPTY)) + self.unplaced.get(partition, 0)

    def partitions(self) -> set[int]:
        """Those of which there is something."""
        return {*self.offsets, *self.unplaced}

    def add(self, count: Count) -> None:
        """One more count of the tier."""
        new = count.count
        if count.offsets is not None:
            new = self._add_offsets(count.partition, count.offsets)
        elif new:
            self.unplaced[count.partition] = self.unplaced.get(count.partition, 0) + new
        self.bytes += count.bytes if new == count.count else count.bytes * new // count.count
        self.malformed += count.malformed if new == count.count else count.malformed * new // count.count
        self.control += count.control
        self.aborted += count.aborted
        self._add_delay(count.delay, new)

    def merge(self, other: "TierCount") -> None:
        """Everything that another sum of the same tier has."""
        before = self.repeated
        for partition, offsets in other.offsets.items():
            self._add_offsets(partition, offsets)
        repeated = self.repeated - before
        count = max(other.count, 1)
        for partition, number in other.unplaced.items():
            self.unplaced[partition] = self.unplaced.get(partition, 0) + number
        self.bytes += other.bytes * (count - repeated) // count
        self.repeated += other.repeated
        self.malformed += other.malformed * (count - repeated) // count
        self.control += other.control
        self.aborted += other.aborted
        self._add_delay(other.delay, other.delayed)

    def forget_offsets(self) -> None:
        """Keep the numbers only."""
        for partition, offsets in self.offsets.items():
            self.unplaced[partition] = self.unplaced.get(partition, 0) + len(offsets)
        self.offsets = {}

    def within(self, offsets: Mapping[int, OffsetSet]) -> "TierCount":
        """What of it lies in these offsets; bytes in proportion. Only for what is exact."""
        found = TierCount()
        for partition, ours in self.offsets.items():
            if shared := ours & offsets.get(partition, EMPTY):
                found.offsets[partition] = shared
        count = self.count
        found.bytes = self.bytes * found.count // count if count else 0
        return found

    def missing_from(self, other: "TierCount") -> Iterator[tuple[int, OffsetSet]]:
        """Partition by partition, the offsets that another does not have. Only for what is exact."""
        for partition, ours in sorted(self.offsets.items()):
            if lost := ours - other.offsets.get(partition, EMPTY):
                yield partition, lost

    def _add_offsets(self, partition: int, offsets: OffsetSet) -> int:
        """How many of them are new."""
        known = self.offsets.get(partition, EMPTY)
        united = (known | offsets).coarsened()
        self.offsets[partition] = united
        new = len(united) - len(known)
        self.repeated += len(offsets) - new
        return new

    def _add_delay(self, delay: Delay | None, count: int) -> None:
        if delay is None or not count:
            return
        if self.delay is None:
            self.delay = delay
        else:
            total = self.delayed + count
            mean = (self.delay.mean * self.delayed + delay.mean * count) // total
            # Percentiles of parts do not add up: the worst part is an upper bound.
            self.delay = Delay(mean, *map(max, self.delay[1:], delay[1:]))
        self.delayed += count
