"""Time, injected: nothing in Millstream asks the operating system for the time except through a `Clock`.

`now_ms` is wall-clock time as Kafka writes it into records (milliseconds since 1970, UTC); `monotonic_ms` only measures distances.
A test hands in a clock that it moves by hand, instead of sleeping.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Where the current time comes from."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, for timestamps that are stored or sent."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start, never going back, for deadlines."""


class SystemClock:
    """The operating system's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
