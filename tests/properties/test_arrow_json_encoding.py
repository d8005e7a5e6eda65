"""What the sink writes as JSON is JSON, and says what the rows said."""

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.arrow.field_encoding import ColumnMismatch
from millstream.arrow.json_encoding import encode_json
from tests.properties.arrow_values import as_arrow

TEXTS = st.text(max_size=12) | st.text(alphabet='"\\/\b\f\n\r\t\x00\x1f\x7fü€😀', max_size=8)
SIMPLE: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.binary(), st.binary(max_size=10)),
    (pa.date32(), st.dates()),
    (pa.decimal128(20, 3), st.decimals(-(10**16), 10**16, places=3)),
]


@st.composite
def columns(draw: st.DrawFn, depth: int = 0) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["simple", "simple", "list", "map", "struct"] if depth < 3 else ["simple"]))
    if kind == "simple":
        arrow, values = draw(st.sampled_from(SIMPLE))
        return arrow, st.none() | values
    if kind == "struct":
        inner = draw(st.lists(columns(depth=depth + 1), max_size=3))
        names = [draw(st.sampled_from(["a", "b c", 'q"', "ü"])) + str(index) for index in range(len(inner))]
        arrow = pa.struct([pa.field(name, entry[0]) for name, entry in zip(names, inner, strict=True)])
        return arrow, st.none() | st.fixed_dictionaries({name: entry[1] for name, entry in zip(names, inner, strict=True)})
    arrow, values = draw(columns(depth=depth + 1))
    if kind == "list":
        return pa.list_(arrow), st.none() | st.lists(values, max_size=3)
    return pa.map_(pa.string(), arrow), st.none() | st.dictionaries(TEXTS, values, max_size=3)


def as_json(value: Any, arrow: pa.DataType) -> Any:
    """What a parser of JSON should find."""
    if value is None:
        return None
    if pa.types.is_map(arrow):
        return {key: as_json(item, arrow.item_type) for key, item in value.items()}
    if pa.types.is_list(arrow):
        return [as_json(item, arrow.value_type) for item in value]
    if pa.types.is_struct(arrow):
        return {field.name: as_json(value[field.name], field.type) for field in arrow if value[field.name] is not None}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date):
        return value.isoformat()
    return value


def texts(column: pa.Array) -> list[str | None]:
    encoded = encode_json(column)
    return [
        None if is_null else bytes(encoded.data[start:end]).decode()
        for is_null, start, end in zip(encoded.is_null, encoded.offsets, encoded.offsets[1:], strict=False)
    ]


@settings(max_examples=150)
@given(column=columns(), data=st.data())
def test_a_parser_reads_what_columns_became(column: tuple[pa.DataType, st.SearchStrategy[Any]], data: st.DataObject) -> None:
    arrow, values = column
    rows = data.draw(st.lists(values, max_size=8))
    array = pa.array([as_arrow(row, arrow) for row in [None, *rows]], type=arrow)[1:]
    found = [None if text is None else json.loads(text, parse_float=EitherNumber) for text in texts(array)]
    assert found == [as_json(row, arrow) for row in rows]


class EitherNumber:
    """Digits that are equal to the float and to the decimal that they may mean."""

    def __init__(self, digits: str) -> None:
        self.digits = digits

    def __eq__(self, other: object) -> bool:
        return Decimal(self.digits) == other if isinstance(other, Decimal) else float(self.digits) == other

    def __hash__(self) -> int:
        return hash(self.digits)


def test_texts_are_those_of_to_json() -> None:
    moment = datetime(2026, 11, 15, 9, 30, 0, 1500, tzinfo=UTC)
    column = pa.array(
        [
            {
                "n": 1,
                "none": None,
                "big": Decimal("12.340"),
                "when": moment,
                "local": moment.replace(tzinfo=None),
                "odd": [float("nan"), float("inf"), float("-inf"), 0.5],
                "empty": [],
                "map": [("k", None)],
            },
            None,
        ],
        type=pa.struct(
            [
                ("n", pa.int32()),
                ("none", pa.string()),
                ("big", pa.decimal128(10, 3)),
                ("when", pa.timestamp("us", tz="Europe/Paris")),
                ("local", pa.timestamp("us")),
                ("odd", pa.list_(pa.float64())),
                ("empty", pa.list_(pa.int32())),
                ("map", pa.map_(pa.string(), pa.int32())),
            ]
        ),
    )
    expected = (
        '{"n":1,"big":12.340,"when":"2026-11-15T09:30:00.001500Z","local":"2026-11-15T09:30:00.001500",'
        '"odd":["NaN","Infinity","-Infinity",0.5],"empty":[],"map":{"k":null}}'
    )
    assert texts(column) == [expected, None]


def test_a_type_that_json_has_no_form_for_is_refused() -> None:
    with pytest.raises(ColumnMismatch, match=r"duration.* cannot be written as json: cast it in Spark"):
        texts(pa.array([{"d": None}], type=pa.struct([("d", pa.duration("us"))])))
