"""Avro messages as a registry's clients write them, made with fastavro."""

import io
import json
from typing import Any

import fastavro

from millstream.registry.client import RegistryClient

Schema = dict[str, Any]


def record(**fields: Any) -> Schema:
    """A record `event`; a field that is a pair has a default."""
    entries = []
    for name, kind in fields.items():
        entry = {"name": name, "type": kind[0], "default": kind[1]} if isinstance(kind, tuple) else {"name": name, "type": kind}
        entries.append(entry)
    return {"type": "record", "name": "event", "namespace": "test", "fields": entries}


def register(registry: RegistryClient, subject: str, schema: Any) -> int:
    """Register a schema; its id."""
    return registry.register(subject, json.dumps(schema)).schema_id


def message(schema_id: int, schema: Any, value: Any) -> bytes:
    """A zero, the id, the value."""
    output = io.BytesIO()
    fastavro.schemaless_writer(output, fastavro.parse_schema(schema), value)
    return b"\x00" + schema_id.to_bytes(4) + output.getvalue()
