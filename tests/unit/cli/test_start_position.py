import pytest

from millstream.cli.start_position import OffsetRange, Start, StartPosition, parse_start_position
from millstream.errors import UsageError


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("beginning", StartPosition(Start.BEGINNING)),
        ("end", StartPosition(Start.END)),
        ("0", StartPosition(Start.OFFSET, 0)),
        ("17", StartPosition(Start.OFFSET, 17)),
        ("-5", StartPosition(Start.LAST, 5)),
        ("@1700000000000", StartPosition(Start.TIME, 1_700_000_000_000)),
        ("@2023-11-14T22:13:20", StartPosition(Start.TIME, 1_700_000_000_000)),
        ("@2023-11-14T23:13:20+01:00", StartPosition(Start.TIME, 1_700_000_000_000)),
        ("@1970-01-02", StartPosition(Start.TIME, 86_400_000)),
    ],
)
def test_a_position_is_a_word_an_offset_a_count_from_the_end_or_a_time(text: str, position: StartPosition) -> None:
    assert parse_start_position(text) == position


@pytest.mark.parametrize("text", ["", "-", "middle", "1.5", "--5", "@", "@yesterday", "9223372036854775808", "²"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="-o"):
        parse_start_position(text)


@pytest.mark.parametrize(
    ("text", "offset"), [("beginning", 10), ("end", 20), ("15", 15), ("3", 10), ("99", 20), ("-4", 16), ("-400", 10), ("-0", 20)]
)
def test_a_position_never_lies_outside_of_the_partition(text: str, offset: int) -> None:
    assert parse_start_position(text).offset_in(OffsetRange(earliest=10, latest=20)) == offset
