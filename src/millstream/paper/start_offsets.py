"""Where to start reading: the stored offset if it is still good, else what the consumer was set to. Rewinding asks the same questions.

A group without a stored offset starts at the earliest or the latest offset there is. A stored one that lies outside the log (retention was
faster, or the topic was made anew) has expired. The answer is always a number, never "the end", and is stored before anything is handed
out: otherwise a group that has read nothing yet would skip, on its next rebalance, what was sent meanwhile.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from millstream.client.cluster import Cluster
from millstream.errors import UsageError
from millstream.offset import EARLIEST, LATEST
from millstream.paper.message import milliseconds_of
from millstream.paper.settings import ConsumerSettings
from millstream.topic_partition import TopicPartition

Target = int | datetime | Literal["earliest", "latest"]
"""Where to rewind to: an offset, the first message at or after a point in time, or an end of the log."""


class Ends(NamedTuple):
    """The first offset of a log, and the one after its last."""

    earliest: int
    latest: int


def read_ends(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Ends]:
    """Both ends of some logs."""
    wanted = list(partitions)
    earliest = cluster.offsets(dict.fromkeys(wanted, EARLIEST))
    latest = cluster.offsets(dict.fromkeys(wanted, LATEST))
    return {partition: Ends(earliest[partition].offset, latest[partition].offset) for partition in wanted}


def start_offset(stored: int | None, ends: Ends, settings: ConsumerSettings) -> int:
    """The offset to start from. An expired one is kept where the consumer is set to say so: pulling from it raises `OffsetExpired`."""
    if stored is None:
        return ends.earliest if settings.start == "earliest" else ends.latest
    if ends.earliest <= stored <= ends.latest or settings.expired == "error":
        return stored
    return ends.earliest if settings.expired == "earliest" else ends.latest


def rewind_offsets(cluster: Cluster, partitions: Iterable[TopicPartition], to: Target) -> dict[TopicPartition, int]:
    """The offsets that a target means for some partitions, each inside its log."""
    ends = read_ends(cluster, partitions)
    if isinstance(to, datetime):
        return _at_time(cluster, ends, milliseconds_of(to))
    if to == "earliest":
        return {partition: end.earliest for partition, end in ends.items()}
    if to == "latest":
        return {partition: end.latest for partition, end in ends.items()}
    if not _is_offset(to):
        raise UsageError(f"to={to!r}: give an offset, a datetime with a time zone, 'earliest' or 'latest'")
    return {partition: min(max(to, end.earliest), end.latest) for partition, end in ends.items()}


def _is_offset(target: object) -> bool:
    return isinstance(target, int) and target >= 0


def _at_time(cluster: Cluster, ends: Mapping[TopicPartition, Ends], time_ms: int) -> dict[TopicPartition, int]:
    found = cluster.offsets(dict.fromkeys(ends, time_ms))
    return {partition: end.latest if found[partition].offset < 0 else found[partition].offset for partition, end in ends.items()}
