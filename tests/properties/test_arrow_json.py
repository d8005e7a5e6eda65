"""JSON in columns: whatever one message is, its neighbours are read, and what is taken is what was written."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.arrow.binary_columns import BinaryColumn
from millstream.arrow.field_decoding import TypedColumn
from millstream.arrow.json_decoding import JsonFormat
from millstream.arrow.json_encoding import encode_json

SIMPLE = {
    "text": pa.string(), "small": pa.int8(), "large": pa.int64(), "real": pa.float32(), "double": pa.float64(), "flag": pa.bool_(),
    "price": pa.decimal128(8, 2), "huge": pa.decimal128(38, 0), "raw": pa.binary(), "day": pa.date32(),
    "at": pa.timestamp("us", tz="UTC"), "local": pa.timestamp("us"),
}  # fmt: skip
EVERYTHING = SIMPLE | {
    "list": pa.list_(pa.string()),
    "map": pa.map_(pa.string(), pa.timestamp("us", tz="UTC")),
    "inner": pa.struct([("text", pa.string()), pa.field("must", pa.string(), nullable=False)]),
}
KIND = pa.struct(list(EVERYTHING.items()))
GOOD = b'{"text": "good", "large": 7, "price": 1.5, "inner": {"must": "be"}}'

any_text = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(
    ["\ud800", "a\udfff", "0001-01-01T00:00:00+14:00", "9999-12-31"]
)
any_number = (
    st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([10**400, -(10**30), 1.7976931348623157e308, 5e-324, 2**63, -(2**63)])
)
any_value = st.recursive(
    st.none() | st.booleans() | any_number | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=6,
)
members = st.dictionaries(st.sampled_from(sorted(EVERYTHING)), any_value, min_size=1, max_size=4)


def read(contents: list[bytes | None], kind: pa.DataType = KIND) -> TypedColumn:
    data = b"".join(content or b"" for content in contents)
    offsets = np.zeros(len(contents) + 1, np.int32)
    offsets[1:] = np.cumsum([len(content or b"") for content in contents])
    is_null = np.array([content is None for content in contents], np.bool_)
    found = JsonFormat(kind).read(BinaryColumn(offsets, np.frombuffer(data, np.uint8), is_null))
    found.array.validate(full=True)
    return found


doubles = st.floats().map(lambda number: number + 0.0)  # Arrow writes -0.0 as a whole number
reals = st.floats(width=32).map(lambda number: number + 0.0)
written = st.fixed_dictionaries({
    "text": st.text(), "large": st.integers(-(2**63), 2**63 - 1), "double": doubles, "real": reals, "raw": st.binary(),
    "price": st.decimals(-999_999, 999_999, places=2), "day": st.dates(), "at": st.datetimes(timezones=st.just(UTC)),
    "local": st.datetimes(), "list": st.none() | st.lists(st.none() | st.text()),
    "map": st.none() | st.dictionaries(st.text(), st.datetimes(timezones=st.just(UTC))).map(lambda entries: list(entries.items())),
})  # fmt: skip


@given(st.lists(st.none() | written, max_size=5))
def test_what_the_sink_writes_is_read_as_what_it_was(rows: list[Any]) -> None:
    column = pa.array(rows, KIND)
    found = read([None if is_null else text for text, is_null in zip(_texts(column), column.is_null().to_pylist(), strict=True)])
    assert (found.broken is None, repr(found.array.to_pylist())) == (True, repr(column.to_pylist()))


def _texts(column: pa.Array) -> list[bytes]:
    texts = encode_json(column)
    return [bytes(texts.data[start:end]) for start, end in pairwise(texts.offsets)]


@settings(max_examples=300)
@given(st.lists(members, max_size=4), st.binary(max_size=20))
def test_a_message_breaks_no_other_whatever_is_in_it(objects: list[dict[str, Any]], nonsense: bytes) -> None:
    contents = [GOOD, None, nonsense, GOOD]
    for value in objects:
        contents += (json.dumps(value).encode(), GOOD)
    column = read(contents)
    for row, (content, value) in enumerate(zip(contents, column.array.to_pylist(), strict=True)):
        is_broken = column.broken is not None and bool(column.broken[row])
        if content == GOOD:
            assert (is_broken, value["text"]) == (False, "good")
        elif content is None or is_broken:
            assert (is_broken, value) == (content is not None, None)
        if is_broken:
            column.explain(row).encode()


@given(st.decimals(allow_nan=False, allow_infinity=False).map(str).filter(lambda text: text.strip("-0123456789") != ""))
def test_a_number_is_the_text_that_it_was_written_as(number: str) -> None:
    kind = pa.struct([("a", pa.string()), ("b", pa.string())])
    column = read([b'{"a": %b, "b": {"x": [%b, 1]}}' % (number.encode(), number.encode())], kind)
    assert column.array.to_pylist() == [{"a": number, "b": f'{{"x":[{number},1]}}'}]


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38), st.integers(0, 5))
def test_a_decimal_has_all_its_digits(digits: int, scale: int, zeros: int) -> None:
    number = Decimal(f"{digits}E-{scale}")
    kind = pa.struct([("a", pa.decimal128(38, scale))])
    text = f"{number:f}" + ("0" * zeros if scale else "")
    assert read([b'{"a": %b}' % text.encode()], kind).array.to_pylist() == [{"a": number}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (rb'{"text": "\ud800"}', "surrogates not allowed"),
        (rb'{"list": ["a", "\udc00"]}', "surrogates not allowed"),
        (rb'{"map": {"\ud800": null}}', "surrogates not allowed"),
        (rb'{"large": ["\ud800"]}', r'["\ud800"] is not a whole number of 64 bits'),
        (b'{"at": "0001-01-01T00:00:00+14:00"}', "is, in UTC, not between the years 1 and 9999"),
        (b'{"at": "9999-12-31T23:59:59-14:00"}', "is, in UTC, not between the years 1 and 9999"),
        (b'{"map": {"a": "0001-01-01T00:00:00+00:01"}}', "is, in UTC, not between the years 1 and 9999"),
        (b'{"double": 1%b}' % (b"0" * 400), "too large"),
        (b'{"price": 1e999999}', "is not a decimal(8,2)"),
        (b'{"price": 1e-999999}', "is not a decimal(8,2)"),
        (b'{"huge": 1%b}' % (b"0" * 38), "is not a decimal(38,0)"),
        (b'{"large": %b}' % (b"9" * 5000), "4300 digits"),
        (b'{"text": %b%b}' % (b"[" * 900, b"]" * 900), "recursion"),
        (b'{"text": ' * 5000, "recursion"),
        (b'{"inner": {"text": "a"}}', "string NOT NULL"),
    ],
)
def test_what_arrow_or_python_do_not_take_is_reported(content: bytes, reason: str) -> None:
    column = read([GOOD, content, GOOD])
    assert column.broken is not None
    assert column.broken.tolist() == [0, 1, 0]
    assert reason in column.explain(1)


def test_the_edges_of_what_is_taken() -> None:
    content = b'{"at": "0001-01-01T00:00:00+00:00", "local": "9999-12-31T23:59:59.999999", "price": 999999.99000, "huge": -%b}' % (
        b"9" * 38
    )
    row = read([content]).array.to_pylist()[0]
    assert row["at"] == datetime(1, 1, 1, tzinfo=UTC)
    assert row["local"] == datetime(9999, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001 -- a local time
    assert (row["price"], row["huge"]) == (Decimal("999999.99"), -(10**38) + 1)


def test_a_map_whose_keys_are_not_text_is_refused_before_the_first_message() -> None:
    with pytest.raises(TypeError, match="JSON cannot be read as map<int32, string>"):
        JsonFormat(pa.struct([("a", pa.map_(pa.int32(), pa.string()))]))
