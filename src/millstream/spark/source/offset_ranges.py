"""The offsets that each task reads: how much a micro-batch takes, and how it is split over tasks. Numbers in, numbers out.

The rules are those of Spark's own connector. `maxOffsetsPerTrigger` is shared out in proportion to what each partition has waiting, and a
partition that has something gets at least one. `maxRecordsPerPartition` and `minPartitions` split what one partition has over several
tasks.

One rule is ours: partitions with little to read share a task, because a task costs Spark and the worker about 60 ms of CPU however little
it reads. The records of a partition stay in one task unless they were split, and in order.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from millstream.spark.positions import Offsets
from millstream.topic_partition import TopicPartition

DEFAULT_MIN_RECORDS_PER_TASK: Final = 50_000
"""About what a worker reads in the time that Spark needs for one more task."""


@dataclass(frozen=True, order=True)
class OffsetRange:
    """Offsets of one partition, from `start` up to but not including `end`."""

    place: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets; there may be fewer records."""
        return self.end - self.start


@dataclass(frozen=True)
class TaskRanges(InputPartition):
    """What one task reads, one range after the other, and what travels to it from the driver."""

    ranges: tuple[OffsetRange, ...]


def limit_offsets(start: Offsets, end: Offsets, maximum: int) -> dict[TopicPartition, int]:
    """Ends that are at most about `maximum` offsets after `start`, shared out in proportion; `start` has every partition of `end`."""
    waiting = {place: max(end[place] - start[place], 0) for place in end}
    total = sum(waiting.values())
    if total <= maximum:
        return dict(end)
    limited = {}
    for place, size in waiting.items():
        share = maximum * size / total
        # A partition with little waiting must not starve beside one with much.
        allowed = math.ceil(share) if share < 1 else math.floor(share)
        limited[place] = min(start[place] + allowed, end[place]) if size else end[place]
    return limited


def count_offsets(start: Offsets, end: Offsets) -> int:
    """How many offsets lie between."""
    return sum(max(offset - start[place], 0) for place, offset in end.items())


def split_ranges(ranges: Iterable[OffsetRange], *, at_least: int | None = None, at_most_records: int | None = None) -> list[OffsetRange]:
    """The ranges of the tasks: none empty, none with more than `at_most_records` offsets, and `at_least` of them if there is enough to
    split."""
    pieces = [whole for whole in sorted(ranges) if whole.size > 0]
    if at_most_records is not None:
        pieces = [piece for whole in pieces for piece in _split(whole, math.ceil(whole.size / at_most_records))]
    if at_least is not None and 0 < len(pieces) < at_least:
        shares = _share_out(at_least, [piece.size for piece in pieces])
        pieces = [part for piece, share in zip(pieces, shares, strict=True) for part in _split(piece, share)]
    return pieces


def combine_ranges(ranges: Iterable[OffsetRange], *, min_records: int, max_records: int | None = None) -> list[TaskRanges]:
    """The tasks of some ranges: a range with at least `min_records` offsets has one of its own, smaller ones share tasks, in their order,
    until those have as many, and never more than `max_records`."""
    tasks: list[TaskRanges] = []
    together: list[OffsetRange] = []
    size = 0
    for one in ranges:
        if one.size >= min_records:
            tasks.append(TaskRanges((one,)))
            continue
        if together and (size >= min_records or (max_records is not None and size + one.size > max_records)):
            tasks.append(TaskRanges(tuple(together)))
            together, size = [], 0
        together.append(one)
        size += one.size
    return [*tasks, TaskRanges(tuple(together))] if together else tasks


def _split(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Equal parts, but for one offset."""
    parts = max(min(parts, whole.size), 1)
    edges = [whole.start + whole.size * index // parts for index in range(parts + 1)]
    return [OffsetRange(whole.place, first, last) for first, last in pairwise(edges)]


def _share_out(parts: int, sizes: list[int]) -> list[int]:
    """At least one part each, and the rest to where the parts would otherwise be the largest."""
    shares = [1] * len(sizes)
    for _ in range(parts - len(sizes)):
        largest = max(range(len(sizes)), key=lambda index: sizes[index] / shares[index])
        if sizes[largest] <= shares[largest]:
            break
        shares[largest] += 1
    return shares
