import pytest

from millstream.cli.consume.format_string import parse_format
from millstream.cli.record_output import ShownRecord
from millstream.errors import UsageError

RECORD = ShownRecord("clicks", 2, 7, 1_700_000_000_000, b"k", b"v\xff", [("a", b"1"), ("b", None)])


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (r"%t %p %o %k %v\n", b"clicks 2 7 k v\xff\n"),
        ("%T %d", b"1700000000000 2023-11-14T22:13:20.000Z"),
        ("%K/%V", b"1/2"),
        ("%h", b"a=1,b="),
        (r"100%%\t\\\0\x1bé", b"100%\t\\\0\x1b\xc3\xa9"),
        ("", b""),
    ],
)
def test_places_are_filled_with_parts_of_the_record(text: str, written: bytes) -> None:
    assert parse_format(text)(RECORD) == written


def test_null_is_empty_and_has_no_size() -> None:
    assert parse_format("[%k][%v] %K %V")(RECORD._replace(key=None, value=None)) == b"[][] -1 -1"


@pytest.mark.parametrize("text", ["%x", "%", r"\q", "\\", r"\xg1"])
def test_what_means_nothing_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(UsageError, match="there are"):
        parse_format(text)
