"""The digest of rows: the same for the same rows in any order and split, another for any difference. It is kept, so it never changes."""

import random

import numpy as np
import pyarrow as pa
import pytest

from millstream.arrow.binary_columns import Rows, binary_column, header_column, no_headers
from millstream.spark.sink.row_digest import RowsDigest

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int]
"""Key, value, headers, wanted partition (-1: none)."""


def digest(rows: list[Row], *, topic: str = "t", into: RowsDigest | None = None) -> tuple[int, int]:
    """Count and digest of rows, in one column each."""
    keys, values, headers, partitions = zip(*rows, strict=True)
    columns = Rows(
        binary_column(pa.array(keys, type=pa.binary())),
        binary_column(pa.array(values, type=pa.binary())),
        header_column(pa.array(headers, type=HEADERS)),
        has_headers=True,
    )
    found = into or RowsDigest()
    found.add(topic, columns, np.array(partitions, dtype=np.int64))
    return found.row_count, found.value


def some_rows(count: int) -> list[Row]:
    generator = random.Random(5)
    return [
        (generator.randbytes(number % 11), generator.randbytes(number), [("h", generator.randbytes(number % 5))], number % 3 - 1)
        for number in range(count)
    ]


def test_order_and_split_do_not_matter() -> None:
    rows = some_rows(100)
    whole = digest(rows)
    random.Random(1).shuffle(rows)
    parts = RowsDigest()
    digest(rows[:30], into=parts)
    assert digest(rows[30:], into=parts) == whole == digest(rows)


@pytest.mark.parametrize(
    "other",
    [
        (b"key", b"valuf", [("h", b"1")], 0),
        (b"ke", b"yvalue", [("h", b"1")], 0),
        (None, b"value", [("h", b"1")], 0),
        (b"", b"value", [("h", b"1")], 0),
        (b"key", None, [("h", b"1")], 0),
        (b"key", b"", [("h", b"1")], 0),
        (b"key", b"value\0", [("h", b"1")], 0),
        (b"key", b"value", [("h", b"2")], 0),
        (b"key", b"value", [("g", b"1")], 0),
        (b"key", b"value", [("h", None)], 0),
        (b"key", b"value", [("h", b"1"), ("h", b"1")], 0),
        (b"key", b"value", [], 0),
        (b"key", b"value", [("h", b"1")], 1),
        (b"key", b"value", [("h", b"1")], -1),
    ],
)
def test_every_part_of_a_row_matters(other: Row) -> None:
    row: Row = (b"key", b"value", [("h", b"1")], 0)
    assert digest([row]) != digest([other])
    assert digest([row, other]) != digest([row, row]) != digest([other, other])


def test_the_topic_matters_and_a_row_twice_is_not_a_row_once() -> None:
    rows = some_rows(3)
    assert digest(rows, topic="a") != digest(rows, topic="b")
    assert digest([*rows, rows[0]])[1] != digest(rows)[1]


def test_every_byte_matters_whatever_the_length() -> None:
    for length in range(80):
        seen = {digest([(None, bytes(place == flipped for place in range(length)), None, -1)]) for flipped in range(length + 1)}
        assert len(seen) == length + 1


def test_no_headers_are_no_headers_however_they_are_missing() -> None:
    plain = RowsDigest()
    column = binary_column(pa.array([b"x"]))
    plain.add("t", Rows(column, column, no_headers(), has_headers=False), None)
    assert (plain.row_count, plain.value) == digest([(b"x", b"x", None, -1)]) == digest([(b"x", b"x", [], -1)])


def test_it_is_what_it_was_when_brokers_began_to_keep_it() -> None:
    assert f"{digest(some_rows(100))[1]:016x}" == "acb9470180bfa062"
