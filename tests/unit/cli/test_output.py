import pytest

from millstream.cli.output import format_rate, format_seconds, format_size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 40, "3.0 TiB"),
        (1 << 75, "32768.0 EiB"),
    ],
)
def test_sizes_are_in_units_of_1024(size: float | None, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(("rate", "text"), [(None, "-"), (0, "0"), (0.04, "<0.1"), (0.5, "0.5"), (12.3, "12"), (12345.6, "12,346")])
def test_rates_have_a_digit_behind_the_point_only_where_it_matters(rate: float | None, text: str) -> None:
    assert format_rate(rate) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0, "0.0 s"), (59.94, "59.9 s"), (60, "1.0 min"), (7384, "2.1 h"), (90_000, "1.0 d")]
)
def test_durations_are_in_the_largest_unit(seconds: float | None, text: str) -> None:
    assert format_seconds(seconds) == text
