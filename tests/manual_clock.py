"""A clock for tests."""


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def advance(self, milliseconds: int) -> None:
        """Let `milliseconds` pass."""
        self._now_ms += milliseconds
