"""A compaction under way, as the log knows it: what was ordered, and from which segments it is made.

Segments may change while the cleaner works: retention drops the oldest, a truncation cuts the last. What was made of a segment that is no
longer the same must not take its place.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from millstream.log.compaction.cleaning_order import CleaningOrder
from millstream.log.segment import Segment


@dataclass(slots=True, frozen=True, eq=False)
class Cleaning:
    """An order and the segments it speaks of."""

    order: CleaningOrder
    segments: Sequence[Segment]
    """In the order of the order."""

    def segments_of(self, base_offsets: Sequence[int]) -> list[Segment]:
        """The old segments of a group, by their base offsets."""
        by_base = {segment.base_offset: segment for segment in self.segments}
        return [by_base[base_offset] for base_offset in base_offsets]
