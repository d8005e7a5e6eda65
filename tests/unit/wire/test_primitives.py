import pytest

from millstream.errors import MalformedFrame
from millstream.wire.primitives import (
    compact_string,
    nullable_string,
    read_count,
    read_int16,
    read_int32,
    read_nullable_string,
    read_string,
    read_tags,
    read_unsigned_varint,
    unsigned_varint,
    zigzag_varint,
)


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (2**32 - 1, b"\xff\xff\xff\xff\x0f")]
)
def test_varints_are_kafkas(value: int, encoded: bytes) -> None:
    assert unsigned_varint(value) == encoded
    assert read_unsigned_varint(encoded, 0) == (value, len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, b"\x00"), (-1, b"\x01"), (1, b"\x02"), (63, b"\x7e"), (-64, b"\x7f"), (64, b"\x80\x01"), (-(2**63), b"\xff" * 9 + b"\x01")],
)
def test_signed_varints_are_kafkas(value: int, encoded: bytes) -> None:
    assert zigzag_varint(value) == encoded


def test_a_varint_of_more_than_five_bytes_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="longer than five bytes"):
        read_unsigned_varint(b"\x80\x80\x80\x80\x80\x01", 0)


@pytest.mark.parametrize("text", [None, "", "topic", "ü" * 100])
def test_strings_survive_the_journey_in_both_forms(text: str | None) -> None:
    assert read_nullable_string(compact_string(text), 0, flexible=True)[0] == text
    assert read_nullable_string(nullable_string(text), 0, flexible=False)[0] == text


def test_a_null_where_a_string_is_required_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="null"):
        read_string(b"\x00", 0, flexible=True)


@pytest.mark.parametrize(
    ("encoded", "flexible"), [(b"\x09abc", True), (b"\x00\x05abc", False), (b"\xff\xfeabc", False), (b"\x02\xff", True)]
)
def test_a_string_that_does_not_fit_or_is_not_text_is_malformed(encoded: bytes, flexible: bool) -> None:
    with pytest.raises(MalformedFrame):
        read_nullable_string(encoded, 0, flexible=flexible)


def test_a_count_is_compared_with_the_bytes_left() -> None:
    assert read_count(b"\x03abcd", 0, flexible=True, element_size=2) == (2, 1)
    with pytest.raises(MalformedFrame, match="an array of 2 elements does not fit into the 4 bytes left"):
        read_count(b"\x03abcd", 0, flexible=True, element_size=3)
    with pytest.raises(MalformedFrame):
        read_count(b"\x7f\xff\xff\xff", 0, flexible=False, element_size=1)


def test_a_null_array_where_one_is_required_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="null"):
        read_count(b"\xff\xff\xff\xff", 0, flexible=False, element_size=1)


def test_a_number_that_is_cut_off_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        read_int16(b"\x00", 0)
    with pytest.raises(MalformedFrame):
        read_int32(b"\x00\x00\x00", 0)


def test_more_tagged_fields_than_bytes_are_refused_before_they_are_read() -> None:
    with pytest.raises(MalformedFrame, match="4294967295 tagged fields"):
        read_tags(b"\xff\xff\xff\xff\x0f", 0)


def test_a_tagged_field_bigger_than_the_message_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        read_tags(b"\x01\x00\x05abc", 0)
