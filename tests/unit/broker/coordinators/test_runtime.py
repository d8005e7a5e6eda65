import pytest

from millstream.broker.coordinators.runtime import java_hash_code, partition_for


@pytest.mark.parametrize(
    ("text", "hash_code"),
    [("", 0), ("a", 97), ("hello", 99162322), ("Aa", 2112), ("BB", 2112), ("\N{GRINNING FACE}", 55357 * 31 + 56832)],
)
def test_hash_is_the_one_of_java(text: str, hash_code: int) -> None:
    assert java_hash_code(text) == hash_code


def test_negative_hash_of_java_loses_its_sign_as_in_kafka() -> None:
    # "polygenelubricants".hashCode() is Integer.MIN_VALUE.
    assert java_hash_code("polygenelubricants") == 0x80000000
    assert partition_for("polygenelubricants", 50) == 0


def test_long_keys_are_hashed_like_short_ones() -> None:
    assert partition_for("a" * 1000, 50) == (java_hash_code("a" * 1000) & 0x7FFFFFFF) % 50
