"""Which partitions, offsets and times a filter leaves, found out without taking the filter apart.

A filter comes as an expression of Arrow's, which cannot be looked into. But Arrow knows how to prune files: it simplifies a filter under
what is promised of all rows of a file, and leaves out the file if nothing remains. So the questions are put as files that are never opened:
"could a file match whose offsets are all at most 1500?" The answer changes once as the number grows, and that place is found by halving.
What Arrow cannot simplify may match: a bound is then missing, never wrong.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

_FORMAT: Final = ds.IpcFileFormat()
_NOWHERE: Final = pyarrow.fs.LocalFileSystem()
_MOMENT: Final = pa.timestamp("us", tz="UTC")
_LAST_MOMENT_US: Final = 2**62


@dataclass(frozen=True, slots=True)
class FilterBounds:
    """What a filter says about where rows are."""

    schema: pa.Schema
    expression: pc.Expression

    def partitions(self, numbers: Iterable[int]) -> set[int]:
        """Those that may have rows that match."""
        asked = list(numbers)
        matching = self._matching([pc.field("partition") == pa.scalar(number, pa.int32()) for number in asked])
        return {asked[index] for index in matching}

    def offsets(self, first: int, end: int) -> tuple[int, int]:
        """The part of these offsets that may match, as first and end."""
        offset = pc.field("offset")
        # Nothing matches whose offset is at most `low - 1`, or at least `high`.
        low = _first_true(first, end, lambda number: self._may_match(offset <= number))
        high = _first_true(low, end, lambda number: not self._may_match(offset >= number))
        return low, high

    def earliest_ms(self) -> int:
        """A time that no row which matches is before, in milliseconds since 1970; 0 if there is none."""
        moment = pc.field("timestamp")
        first_us = _first_true(0, _LAST_MOMENT_US, lambda number: self._may_match(moment <= pa.scalar(number, _MOMENT)))
        return first_us // 1000

    def columns(self) -> list[str]:
        """The columns that the filter looks at."""
        return [name for name in self.schema.names if not self._is_bound_without(name)]

    def _is_bound_without(self, name: str) -> bool:
        others = pa.schema([field for field in self.schema if field.name != name])
        try:
            ds.Scanner.from_batches(iter(()), schema=others, columns=[], filter=self.expression)
        except pa.ArrowInvalid:
            return False
        return True

    def _may_match(self, promise: pc.Expression) -> bool:
        return bool(self._matching([promise]))

    def _matching(self, promises: Sequence[pc.Expression]) -> list[int]:
        files = [_FORMAT.make_fragment(str(index), _NOWHERE, partition_expression=promise) for index, promise in enumerate(promises)]
        dataset = ds.FileSystemDataset(files, self.schema, _FORMAT, _NOWHERE)
        return [int(file.path) for file in dataset.get_fragments(filter=self.expression)]


def _first_true(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first number from `low` on for which it holds, and for all after it; `high` if it is none of them."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
