import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from millstream.avro.parser import parse_schema
from millstream.cli.plain_json import plain_json
from millstream.cli.produce.avro_values import from_json
from millstream.registry.avro_codec import avro_codec

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "text", "type": "string"},
        {"name": "raw", "type": "bytes"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}], "default": None},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 2}},
        {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED"]}},
        {"name": "ratio", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {
            "name": "source",
            "type": [
                {"type": "record", "name": "Web", "fields": [{"name": "url", "type": "string"}]},
                {"type": "record", "name": "App", "fields": [{"name": "version", "type": "int"}]},
                "string",
            ],
        },
    ],
}
VALUE: dict[str, Any] = {
    "text": "é",
    "raw": b"\xff\x00",
    "at": datetime(2026, 11, 14, 8, tzinfo=UTC),
    "day": date(2026, 11, 14),
    "clock": time(8, 30, 0, 5),
    "id": UUID(int=7),
    "price": Decimal("1.50"),
    "digest": b"\xfe\x01",
    "colour": "RED",
    "ratio": float("inf"),
    "tags": ["a"],
    "counts": {"a": 1},
    "source": {"version": 7},
}
PARSED = parse_schema(json.dumps(SCHEMA)).root


def test_what_consume_writes_is_encoded_to_the_same_bytes() -> None:
    codec = avro_codec(json.dumps(SCHEMA))
    message = codec.encode({**VALUE, "source": ("App", VALUE["source"])}, b"")
    shown = json.loads(json.dumps(plain_json(codec.decode(message, 0, None))))
    assert codec.encode(from_json(PARSED, shown), b"") == message


def test_fields_with_a_default_may_be_left_out() -> None:
    assert "price" not in from_json(PARSED, {name: value for name, value in plain_json(VALUE).items() if name != "price"})


def test_times_may_be_the_numbers_that_are_written() -> None:
    assert from_json(PARSED, plain_json(VALUE) | {"at": 7})["at"] == 7


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"pirce": 1}, "has a field 'pirce', which All does not know"),
        ({"at": "yesterday"}, r"value.at is 'yesterday', which is no timestamp-millis"),
        ({"price": "much"}, r"value.price is 'much', which is no decimal"),
        ({"raw": {"base64": "?"}}, r"value.raw is .* which is no bytes"),
        ({"source": {"version": 7, "x": 1}}, "does not know"),
        ({"source": 7}, r"value.source is a number, which fits none"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        from_json(PARSED, plain_json(VALUE) | change)


@pytest.mark.parametrize("value", [7, None, "x", []])
def test_a_record_is_an_object(value: object) -> None:
    with pytest.raises(ValueError, match="must be an object with the fields of All"):
        from_json(PARSED, value)


def test_a_field_without_default_must_be_there() -> None:
    with pytest.raises(ValueError, match="lacks the field 'text' of All"):
        from_json(PARSED, {})
