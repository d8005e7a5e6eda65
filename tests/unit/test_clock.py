import time

from millstream.clock import SystemClock
from tests.manual_clock import ManualClock


def test_the_system_clock_counts_milliseconds_since_1970() -> None:
    before = time.time()
    now_ms = SystemClock().now_ms()
    assert before * 1000 - 1 <= now_ms <= time.time() * 1000 + 1


def test_the_monotonic_clock_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_ms() for _ in range(1000)]
    assert readings == sorted(readings)


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(now_ms=5_000)
    assert [clock.now_ms(), clock.now_ms()] == [5_000, 5_000]
    clock.advance(250)
    assert clock.now_ms() == 5_250


def test_moving_a_manual_clock_moves_both_of_its_times_alike() -> None:
    clock = ManualClock()
    wall, monotonic = clock.now_ms(), clock.monotonic_ms()
    clock.advance(1_000)
    assert (clock.now_ms() - wall, clock.monotonic_ms() - monotonic) == (1_000, 1_000)
