"""The longest time without an acknowledgement, as producers see it."""

from tests.cluster.faults.unavailability import longest_gap, worst_gap


def test_the_longest_gap_that_a_fault_touches_counts() -> None:
    times = [0.0, 1.0, 2.0, 7.0, 8.0, 20.0, 21.0]
    assert longest_gap(times, 1.5, 7.5) == 5.0
    assert longest_gap(times, 3.0, 4.0) == 5.0
    assert longest_gap(times, 0.0, 2.0) == 1.0
    assert longest_gap(times, 9.0, 10.0) == 12.0


def test_a_partition_that_was_never_acknowledged_again_was_away_to_the_end() -> None:
    assert longest_gap([0.0, 1.0], 1.0, 10.0) == 9.0
    assert longest_gap([], 1.0, 10.0) == 9.0


def test_the_partition_that_was_hit_worst_counts() -> None:
    assert worst_gap({0: [0.0, 1.0, 2.0], 1: [0.0, 2.0]}, 0.0, 2.0) == 2.0
