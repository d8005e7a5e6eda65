"""Short ways to write schemas in tests."""

import json
from typing import Any

from millstream.avro.parser import parse_schema
from millstream.avro.schema import Schema


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def schema(document: Any) -> Schema:
    return parse_schema(json.dumps(document)).root
