"""Offsets in transactions as a plain model: every record keeps its place in the log, and the later one counts, as Kafka says."""

from dataclasses import dataclass, field

PRODUCERS = (1, 2, 3)

Step = tuple[str, int, int]
"""What is done (plain, pending, commit, abort or delete), by which producer, to which partition."""


@dataclass
class OffsetsModel:
    """The partitions of one group."""

    log_end: int = 0
    committed: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partition to place of the record, and what it commits."""
    pending: dict[int, dict[int, tuple[int, int]]] = field(default_factory=lambda: {producer: {} for producer in PRODUCERS})

    def take(self, step: Step, value: int) -> None:
        """Do something; `value` is what is committed."""
        what, producer, partition = step
        self.log_end += 1
        if what == "plain":
            self.committed[partition] = (self.log_end, value)
        elif what == "pending":
            self.pending[producer][partition] = (self.log_end, value)
        elif what == "delete":
            self.committed.pop(partition, None)
            for offsets in self.pending.values():
                offsets.pop(partition, None)
        else:
            ended, self.pending[producer] = self.pending[producer], {}
            for key, record in ended.items() if what == "commit" else ():
                self.committed[key] = max(record, self.committed.get(key, record))

    def shown(self, partitions: range) -> list[tuple[int, bool]]:
        """What is committed in each partition, and whether that is stable."""
        unstable = {partition for offsets in self.pending.values() for partition in offsets}
        return [(self.committed.get(partition, (0, -1))[1], partition not in unstable) for partition in partitions]
