"""How much a micro-batch reads and how it is split over tasks: numbers in, numbers out.

The rules are those of Spark's own connector. `maxOffsetsPerTrigger` is shared out in proportion to what each partition has waiting, and a
partition that has something gets at least one. `maxRecordsPerPartition` and `minPartitions` split what one partition has over several
tasks.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from millstream.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, int]


class Slice(NamedTuple):
    """Offsets of one partition, from `start` up to but not including `end`, that one task reads."""

    place: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets; there may be fewer records."""
        return self.end - self.start


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


def split_slices(slices: Iterable[Slice], *, at_least: int | None = None, at_most_records: int | None = None) -> list[Slice]:
    """The slices of the tasks: none empty, none with more than `at_most_records` offsets, and `at_least` of them if there is enough to
    split."""
    pieces = [slice_ for slice_ in sorted(slices) if slice_.size > 0]
    if at_most_records is not None:
        pieces = [piece for slice_ in pieces for piece in _split(slice_, math.ceil(slice_.size / at_most_records))]
    if at_least is not None and 0 < len(pieces) < at_least:
        shares = _share_out(at_least, [piece.size for piece in pieces])
        pieces = [part for piece, share in zip(pieces, shares, strict=True) for part in _split(piece, share)]
    return pieces


def _split(slice_: Slice, parts: int) -> list[Slice]:
    """Equal parts, but for one offset."""
    parts = max(min(parts, slice_.size), 1)
    edges = [slice_.start + slice_.size * index // parts for index in range(parts + 1)]
    return [Slice(slice_.place, first, last) for first, last in pairwise(edges)]


def _share_out(parts: int, sizes: list[int]) -> list[int]:
    """At least one part each, and the rest to where the parts would otherwise be the largest."""
    shares = [1] * len(sizes)
    for _ in range(parts - len(sizes)):
        largest = max(range(len(sizes)), key=lambda index: sizes[index] / shares[index])
        if sizes[largest] <= shares[largest]:
            break
        shares[largest] += 1
    return shares
