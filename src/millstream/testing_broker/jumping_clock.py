"""A clock that goes as that of the machine does, and can be set forward: a week passes, and retention does its work."""

from datetime import timedelta

from millstream.clock import SystemClock


class JumpingClock(SystemClock):
    """The time of day jumps; distances (`monotonic_ms`: sessions of group members, timeouts) do not, as when a machine's clock is set."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms

    def jump(self, distance: timedelta) -> None:
        """Set the clock forward."""
        self._ahead_ms += round(distance.total_seconds() * 1000)
