"""A limit of bytes per second, as a bucket that fills up with time: what was read is taken out afterwards, and may leave it in debt.

Pure: the time is the caller's. Reading goes on while there is no debt, so a large answer is followed by a long pause.
"""

from math import inf
from typing import Final

_BURST_S: Final = 0.25
_SMALLEST_READ: Final = 64 << 10


class ByteLimit:
    """So many bytes per second, for all readers together; 0 is no limit."""

    def __init__(self, bytes_per_s: int, *, now: float, burst_s: float = _BURST_S, longest_pause_s: float = inf) -> None:
        """What was not used of `burst_s` may be used at once, and no more than that is to be read at once."""
        self._rate = bytes_per_s
        self._burst_s = burst_s
        self._longest_pause_s = longest_pause_s
        self._level = 0.0
        self._now = now

    def spend(self, count: int, *, now: float) -> None:
        """So many bytes were read."""
        if self._rate:
            self._fill(now)
            self._level = max(self._level - count, -self._rate * self._longest_pause_s)

    def pause_s(self, *, now: float) -> float:
        """How long to wait before more is read."""
        if not self._rate:
            return 0.0
        self._fill(now)
        return max(-self._level / self._rate, 0.0)

    def largest_read(self, wanted: int) -> int:
        """How much to ask for at once, so that the pauses stay short."""
        return min(wanted, max(int(self._rate * self._burst_s), _SMALLEST_READ)) if self._rate else wanted

    def _fill(self, now: float) -> None:
        self._level = min(self._level + (now - self._now) * self._rate, self._rate * self._burst_s)
        self._now = now
