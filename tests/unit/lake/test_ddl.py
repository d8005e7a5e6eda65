import pyarrow as pa
import pytest

from millstream.errors import UsageError
from millstream.lake.ddl import parse_columns


def test_columns_have_the_types_that_spark_gives_them() -> None:
    found = parse_columns(
        "a BOOLEAN, b tinyint, c SMALLINT not null, d INT COMMENT 'it''s', e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(12, 3), i DECIMAL, "
        "j STRING, k BINARY, l DATE, m TIMESTAMP, n TIMESTAMP_NTZ, `o p``q` LONG".replace("it''s", "so")
    )
    assert found == pa.struct(
        [
            ("a", pa.bool_()), ("b", pa.int8()), ("c", pa.int16()), ("d", pa.int32()), ("e", pa.int64()), ("f", pa.float32()),
            ("g", pa.float64()), ("h", pa.decimal128(12, 3)), ("i", pa.decimal128(10, 0)), ("j", pa.string()), ("k", pa.binary()),
            ("l", pa.date32()), ("m", pa.timestamp("us", tz="UTC")), ("n", pa.timestamp("us")), ("o p`q", pa.int64()),
        ]
    )  # fmt: skip


def test_types_are_nested() -> None:
    found = parse_columns("a ARRAY<STRUCT<x: INT, y STRING>>, b MAP<STRING, ARRAY<INT>>, c STRUCT<d: STRUCT<e: INT>>")
    inner = pa.struct([("x", pa.int32()), ("y", pa.string())])
    assert found == pa.struct(
        [
            ("a", pa.list_(inner)),
            ("b", pa.map_(pa.string(), pa.list_(pa.int32()))),
            ("c", pa.struct([("d", pa.struct([("e", pa.int32())]))])),
        ]
    )


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("", "there is no column"),
        ("id", "a type is missing, at its end"),
        ("id BIGINY", "BIGINY is no type; there are BOOLEAN"),
        ("id INT name STRING", "',' is missing, before 'name'"),
        ("id INT,", "the name of a column is missing"),
        ("id INT, ID STRING", "there are two columns id"),
        ("a ARRAY<INT", "'>' is missing, at its end"),
        ("a MAP<INT>", "',' is missing"),
        ("a DECIMAL(50,2)", "has no such digits"),
        ("a DECIMAL(x)", "a number of digits is missing"),
        ("a INT NOT", "NOT is followed by NULL"),
        ("a INT; b INT", "what is at '; b INT'"),
        ("a " + "ARRAY<" * 60 + "INT" + ">" * 60, "nested more than 50 deep"),
        ("a STRUCT<b INT", "',' is missing"),
    ],
)
def test_what_cannot_be_read_is_said(ddl: str, problem: str) -> None:
    with pytest.raises(UsageError, match=f"is no list of columns like .*{problem}"):
        parse_columns(ddl)
