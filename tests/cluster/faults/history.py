"""What clients saw while faults came and went: records sent and acknowledged, offsets committed, records delivered to groups.

Written by the threads of the load, read by the checker when they have ended. Arrays, because a long run has millions of records.
"""

import threading
from array import array
from collections import defaultdict
from math import inf
from time import monotonic
from typing import NamedTuple

NOT_ACKNOWLEDGED = -1
SOMEWHERE = -2
"""Acknowledged without an offset: librdkafka takes a lost answer as given when a later batch of the same producer is acknowledged."""


class ProducerHistory:
    """One idempotent producer, by sequence number: the partition each record was sent to, and the offset it was acknowledged with."""

    def __init__(self) -> None:
        self.partitions = array("h")
        self.offsets = array("q")

    def sent(self, partition: int) -> int:
        """One more record goes out; its sequence number."""
        self.partitions.append(partition)
        self.offsets.append(NOT_ACKNOWLEDGED)
        return len(self.partitions) - 1

    @property
    def acknowledged_count(self) -> int:
        return len(self.offsets) - self.offsets.count(NOT_ACKNOWLEDGED)


class Commit(NamedTuple):
    """A commit from when it was asked for until it was acknowledged (never: infinity), or the same of a question what is committed."""

    group: str
    partition: int
    offset: int
    label: str
    """Written with the offset, as its metadata: no two commits of a partition have the same. Empty where nothing is committed."""
    began: float
    ended: float
    released: float = inf
    """When the member that asked for it next gave the partition up."""


class History:
    """Everything of one run."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.producers: dict[str, ProducerHistory] = {}
        self.acknowledgement_times: dict[int, array[float]] = defaultdict(lambda: array("d"))
        self.failures: dict[str, int] = defaultdict(int)
        """Records that producers gave up, and commits that failed, by error: neither is a promise broken."""
        self.commits: list[Commit] = []
        """All attempts that could have had an effect."""
        self.observed: list[Commit] = []
        self.delivered: dict[tuple[str, int], bytearray] = defaultdict(bytearray)
        """By group and partition, one byte per offset: how often it was delivered, up to 255."""
        self.crashes: list[str] = []
        """What ended a thread of the load: a defect of the rig or of a client."""

    def acknowledged(self, producer: str, sequence: int, *, offset: int) -> None:
        """The record was acknowledged, with its offset or without."""
        own = self.producers[producer]
        own.offsets[sequence] = offset
        with self.lock:
            self.acknowledgement_times[own.partitions[sequence]].append(monotonic())

    def failed(self, what: str) -> None:
        """A client gave something up."""
        with self.lock:
            self.failures[what] += 1

    def was_delivered(self, group: str, partition: int, offset: int) -> None:
        """A member of the group got the record."""
        with self.lock:
            seen = self.delivered[group, partition]
            if offset >= len(seen):
                seen.extend(bytes(offset + 1 - len(seen)))
            seen[offset] = min(seen[offset] + 1, 255)

    @property
    def acknowledged_count(self) -> int:
        return sum(producer.acknowledged_count for producer in self.producers.values())
