from datetime import timedelta

import pytest

from millstream.clock import SystemClock
from millstream.errors import UsageError
from millstream.testing_broker.jumping_clock import JumpingClock

WEEK_MS = 7 * 24 * 3_600_000


def test_the_time_of_day_jumps_and_distances_do_not() -> None:
    clock, system = JumpingClock(), SystemClock()
    clock.jump(timedelta(days=7))
    clock.jump(timedelta(milliseconds=1))
    before = system.now_ms(), system.monotonic_ms()
    now_ms, monotonic_ms = clock.now_ms(), clock.monotonic_ms()
    after = system.now_ms(), system.monotonic_ms()
    assert before[0] <= now_ms - WEEK_MS - 1 <= after[0]
    assert before[1] <= monotonic_ms <= after[1]


def test_a_distance_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"5 is no distance in time: give a timedelta"):
        JumpingClock().jump(5)  # type: ignore[arg-type]


def test_the_clock_does_not_go_back() -> None:
    with pytest.raises(UsageError, match="goes forward only"):
        JumpingClock().jump(timedelta(seconds=-1))
