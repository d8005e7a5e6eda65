"""Text and JSON as typed columns, and what becomes of what is neither."""

from datetime import date
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from tests.brokers import Broker
from tests.spark.reading import frame
from tests.spark.topic_content import Message, write

SCHEMA = (
    "id BIGINT, name STRING, price DECIMAL(8,2), ratio DOUBLE, tags ARRAY<STRING>, inner STRUCT<x: INT>, counts MAP<STRING, INT>, "
    "raw BINARY, day DATE, at TIMESTAMP, ok BOOLEAN"
)
OBJECT = (
    b'{"id": 1, "name": "ann", "price": 12.50, "ratio": 3, "tags": ["a", null], "inner": {"x": 7, "y": 8}, "counts": {"b": 2}, '
    b'"raw": "aGk=", "day": "2026-11-15", "at": "2026-11-15T12:00:00Z", "ok": true, "unknown": [1]}'
)


def test_json_objects_are_structs(spark: SparkSession, broker: Broker, topic: str) -> None:
    write(broker, topic, [Message(OBJECT), Message(None), Message(b"{}"), Message(b'{"name": {"a": [1.50]}}')])
    data = frame(spark, broker, topic, value__format="json", value__schema=SCHEMA).orderBy("offset")
    rows = [row["value"] and row["value"].asDict(recursive=True) for row in data.collect()]
    empty = dict.fromkeys(["id", "name", "price", "ratio", "tags", "inner", "counts", "raw", "day", "at", "ok"])
    assert rows[0] | {"at": None} == {
        "id": 1, "name": "ann", "price": Decimal("12.50"), "ratio": 3.0, "tags": ["a", None], "inner": {"x": 7}, "counts": {"b": 2},
        "raw": b"hi", "day": date(2026, 11, 15), "at": None, "ok": True,
    }  # fmt: skip
    assert data.selectExpr("unix_seconds(value.at)").collect()[0][0] == 1_794_744_000
    assert rows[1:] == [None, empty, empty | {"name": '{"a":[1.50]}'}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"nonsense", "Expecting value"),
        (b"[1]", r"it is not an object but \[1\]"),
        (b'{"id": 1} {"id": 2}', "Extra data"),
        (b'{"id": "1"}', '"1" is not a whole number of 64 bits'),
        (b'{"id": 1.5}', r"1\.5 is not a whole number of 64 bits"),
        (b'{"price": 1.234}', r"1\.234 is not a decimal\(8,2\)"),
        (b'{"price": 12345678}', r"12345678 is not a decimal\(8,2\)"),
        (b'{"ratio": NaN}', "NaN is not JSON"),
        (b'{"day": "tomorrow"}', "Invalid isoformat string"),
        (b'{"inner": [1]}', r"\[1\] is not an object"),
        (b'{"inner": {"x": 3000000000}}', "3000000000 is not a whole number of 32 bits"),
        (b"\xff", "can't decode byte 0xff"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_what_is_not_such_an_object_is_reported(spark: SparkSession, broker: Broker, topic: str, content: bytes, reason: str) -> None:
    write(broker, topic, [Message(b'{"id": 1}'), Message(content)])
    data = frame(spark, broker, topic, value__format="json", value__schema=SCHEMA)
    with pytest.raises(Exception, match=f"the value at offset 1 of {topic}-0 cannot be read as json: .*{reason}"):
        data.collect()


POISON = [
    rb'{"name": "\ud800"}', rb'{"counts": {"\udfff": 1}}', rb'{"tags": ["\ud800\ud800"]}', b'{"at": "0001-01-01T00:00:00+14:00"}',
    b'{"at": "9999-12-31T23:59:59-14:00"}', b'{"ratio": 1' + b"0" * 400 + b"}", b'{"id": ' + b"9" * 5000 + b"}", b'{"price": 1e999999}',
    b'{"name": ' + b"[" * 900 + b"]" * 900 + b"}", b"[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_no_message_of_json_ends_a_query_that_does_not_want_to_end(spark: SparkSession, broker: Broker, topic: str, mode: str) -> None:
    good = [Message(b'{"id": %d, "name": 1.50e3}' % number) for number in range(len(POISON))]
    write(broker, topic, [message for pair in zip(good, map(Message, POISON), strict=True) for message in pair])
    data = frame(spark, broker, topic, value__format="json", value__schema=SCHEMA, mode=mode)
    rows = {row["offset"]: row for row in data.collect()}
    assert {offset // 2: (row["value"]["id"], row["value"]["name"]) for offset, row in rows.items() if offset % 2 == 0} == {
        number: (number, "1.50e3") for number in range(len(POISON))
    }
    bad = {offset // 2: (row["value"], bytes(row["corrupt_value"])) for offset, row in rows.items() if offset % 2}
    assert bad == ({number: (None, content) for number, content in enumerate(POISON)} if mode == "PERMISSIVE" else {})


def test_broken_text_is_kept_apart_or_left_out(spark: SparkSession, broker: Broker, topic: str) -> None:
    write(broker, topic, [Message(b"one", b"k"), Message(b"\xc3\x28", b"k"), Message("drei€".encode(), b"\xff"), Message(None)])

    def read(**options: object) -> list[tuple[object, ...]]:
        data = frame(spark, broker, topic, value__format="string", columns="value,offset", **options).orderBy("offset")
        return [tuple(row) for row in data.collect()]

    with pytest.raises(Exception, match=rf"the value at offset 1 of {topic}-0 cannot be read as string: it is not UTF-8"):
        read()
    assert read(mode="DROPMALFORMED") == [("one", 0), ("drei€", 2), (None, 3)]
    assert read(mode="PERMISSIVE") == [("one", 0, None), (None, 1, b"\xc3\x28"), ("drei€", 2, None), (None, 3, None)]
    both = frame(spark, broker, topic, key__format="string", value__format="string", mode="DROPMALFORMED").orderBy("offset")
    assert [(row["key"], row["value"]) for row in both.collect()] == [("k", "one"), (None, None)]
    both = frame(spark, broker, topic, key__format="string", value__format="string", mode="PERMISSIVE").orderBy("offset")
    assert [(row["corrupt_key"], row["corrupt_value"]) for row in both.collect()] == [
        (None, None), (None, b"\xc3\x28"), (b"\xff", None), (None, None),
    ]  # fmt: skip
