"""A clock that goes as that of the machine does, and can be set forward: a week passes, and retention does its work."""

from datetime import timedelta

from millstream.clock import SystemClock
from millstream.errors import UsageError


class JumpingClock(SystemClock):
    """The time of day jumps; distances (`monotonic_ms`: sessions of group members, timeouts) do not, as when a machine's clock is set."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms

    def jump(self, distance: timedelta) -> None:
        """Set the clock forward; UsageError for a distance that is none."""
        if not isinstance(distance, timedelta):
            raise UsageError(f"{distance!r} is no distance in time: give a timedelta, for example timedelta(hours=1)")
        if distance < timedelta():
            raise UsageError(f"the broker's clock goes forward only, and {distance} is back: start another broker for another time")
        self._ahead_ms += round(distance.total_seconds() * 1000)
