import pytest

from millstream.monitoring.request_times import WINDOW_S, RecentTimes, cumulative, quantile_us

SIZE = 64


def buckets(counts: dict[int, int], total_us: int = 0) -> list[int]:
    return [counts.get(bits, 0) for bits in range(SIZE - 1)] + [total_us]


@pytest.mark.parametrize(
    ("counts", "quantile", "expected"),
    [
        ({10: 100}, 0.5, 768.0),  # half of the way from 512 to 1024 us
        ({10: 100}, 0.99, 1018.88),
        ({5: 99, 20: 1}, 0.5, pytest.approx(24.08, abs=0.01)),
        ({5: 99, 20: 1}, 0.999, pytest.approx(996_147.2)),
        ({0: 1}, 0.5, 0.5),
        ({}, 0.5, 0.0),
    ],
)
def test_quantile_lies_in_its_bucket(counts: dict[int, int], quantile: float, expected: float) -> None:
    assert quantile_us(buckets(counts)[:-1], quantile) == expected


def test_quantiles_are_those_of_the_last_minutes() -> None:
    times = RecentTimes()
    times.note(0, {"Produce": buckets({20: 1000})})
    assert {quantile: value for _, quantile, value in times.quantiles_ms()}[0.5] > 500
    times.note(10, {"Produce": buckets({20: 1000, 8: 10})})
    times.note(WINDOW_S + 10, {"Produce": buckets({20: 1000, 8: 20}), "Fetch": buckets({4: 1})})
    found = {(request, quantile): value for request, quantile, value in times.quantiles_ms()}
    assert 0.128 < found["Produce", 0.999] <= 0.256
    assert found["Fetch", 0.5] == 0.012
    times.note(3 * WINDOW_S, {"Produce": buckets({20: 1000, 8: 20}), "Fetch": buckets({4: 1})})
    assert list(times.quantiles_ms()) == []


def test_histogram_counts_what_took_at_most_as_long() -> None:
    bounds = dict(cumulative(buckets({1: 5, 7: 3, 12: 1, 40: 1})))
    assert next(iter(bounds)) == 0.000064
    assert (bounds[0.000064], bounds[0.000128], bounds[0.004096], bounds[33.554432]) == (5, 8, 9, 9)
