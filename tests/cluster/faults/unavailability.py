"""How long a fault kept producers waiting: the longest time between two acknowledgements in a row, of the partition it hit worst. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise


def longest_gap(times: Sequence[float], began: float, ended: float) -> float:
    """The longest time without an acknowledgement that touches the time from `began` to `ended`; `times` ascend."""
    first = max(bisect_right(times, began) - 1, 0)
    last = bisect_left(times, ended) + 1
    touched = times[first:last]
    if not len(touched):
        return ended - began
    gaps = [later - earlier for earlier, later in pairwise(touched)]
    before = [touched[0] - began] if touched[0] > began else []
    after = [ended - touched[-1]] if touched[-1] < ended else []
    return max([*gaps, *before, *after, 0.0])


def worst_gap(times_of: Mapping[int, Sequence[float]], began: float, ended: float) -> float:
    """The longest of all partitions."""
    return max((longest_gap(times, began, ended) for times in times_of.values()), default=0.0)
