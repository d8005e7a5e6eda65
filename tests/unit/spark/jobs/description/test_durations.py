import pytest

from millstream.errors import UsageError
from millstream.spark.jobs.description.durations import duration_text, parse_duration_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 minutes", 600_000), ("1 minute", 60_000), ("90s", 90_000), ("500 ms", 500), ("2 hours", 7_200_000), ("1 day", 86_400_000),
        ("1 hour 30 minutes", 5_400_000), ("  5 MIN ", 300_000), ("1 week", 604_800_000), ("3 secs", 3_000),
    ],
)  # fmt: skip
def test_durations_are_read_as_people_write_them(text: str, expected: int) -> None:
    assert parse_duration_ms("size", text) == expected


@pytest.mark.parametrize("text", ["", "ten minutes", "10", "10 minuts", "-5 minutes", "1.5 hours", "5 minutes or so", "minutes"])
def test_what_is_no_duration_is_said_with_the_name_of_its_setting(text: str) -> None:
    with pytest.raises(UsageError, match=r"size: .*is not a duration"):
        parse_duration_ms("size", text)


def test_zero_is_a_duration_only_where_it_makes_sense() -> None:
    assert parse_duration_ms("watermark", "0 seconds", may_be_zero=True) == 0
    with pytest.raises(UsageError, match="no time at all"):
        parse_duration_ms("size", "0 seconds")


def test_a_duration_of_more_than_ten_years_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="is the unit right"):
        parse_duration_ms("size", "4000 days")


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [(600_000, "10 minutes"), (60_000, "1 minute"), (1_500, "1500 milliseconds"), (0, "0 milliseconds"), (172_800_000, "2 days")],
)
def test_a_duration_is_shown_in_the_largest_unit_that_divides_it(duration_ms: int, expected: str) -> None:
    assert duration_text(duration_ms) == expected
