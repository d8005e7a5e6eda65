import pytest

from millstream.cli.position import OffsetRange, Position, PositionKind, parse_position
from millstream.errors import UsageError

NOW_MS = 1_700_000_000_000
"""2023-11-14T22:13:20Z."""
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position(PositionKind.EARLIEST)),
        ("latest", Position(PositionKind.LATEST)),
        ("0", Position(PositionKind.OFFSET, 0)),
        ("17", Position(PositionKind.OFFSET, 17)),
        ("-5", Position(PositionKind.LAST, 5)),
        (" -5", Position(PositionKind.LAST, 5)),
        ("-90s", Position(PositionKind.TIME, NOW_MS - 90_000)),
        ("-24h", Position(PositionKind.TIME, NOW_MS - 24 * HOUR_MS)),
        ("-1d", Position(PositionKind.TIME, NOW_MS - 24 * HOUR_MS)),
        ("-2w", Position(PositionKind.TIME, NOW_MS - 14 * 24 * HOUR_MS)),
        ("-999999999w", Position(PositionKind.TIME, 0)),
        ("@now", Position(PositionKind.TIME, NOW_MS)),
        ("@today", Position(PositionKind.TIME, 1_699_920_000_000)),
        ("@yesterday", Position(PositionKind.TIME, 1_699_920_000_000 - 24 * HOUR_MS)),
        ("@1700000000000", Position(PositionKind.TIME, NOW_MS)),
        ("@2023-11-14T22:13:20", Position(PositionKind.TIME, NOW_MS)),
        ("@2023-11-14T23:13:20+01:00", Position(PositionKind.TIME, NOW_MS)),
        ("@2023-11-14T23:13+01:00", Position(PositionKind.TIME, NOW_MS - 20_000)),
        ("@1970-01-02", Position(PositionKind.TIME, 86_400_000)),
        ("@1950-01-01", Position(PositionKind.TIME, 0)),
    ],
)
def test_a_position_is_a_word_an_offset_a_count_from_the_end_or_a_time(text: str, position: Position) -> None:
    assert parse_position(text, "--from", now_ms=NOW_MS) == position


@pytest.mark.parametrize(
    "text",
    ["", "-", "middle", "beginning", "end", "1.5", "--5", "-5y", "-h", "@", "@tomorrow-ish", "9223372036854775808", "²", "-²h", "9" * 5000],
)
def test_what_is_no_position_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(UsageError, match=r"--from .*2026-11-14T08:00\+01:00"):
        parse_position(text, "--from")


@pytest.mark.parametrize(
    ("text", "offset"), [("earliest", 10), ("latest", 20), ("15", 15), ("3", 10), ("99", 20), ("-4", 16), ("-400", 10), ("-0", 20)]
)
def test_a_position_never_lies_outside_of_the_partition(text: str, offset: int) -> None:
    assert parse_position(text, "--from").offset_in(OffsetRange(earliest=10, latest=20)) == offset
