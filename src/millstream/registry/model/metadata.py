"""What a config does with the metadata of schemas: defaults, overrides, and fields that are reserved, as in Confluent's registry.

    {"tags": {"path": ["tag"]}, "properties": {"name": "text"}, "sensitive": ["name of a property"]}

A schema that is registered gets `defaultMetadata`, over it its own (or, if it brings none, that of the version before), and over both
`overrideMetadata`, from the nearest config alone. With `validateFields` no field of a record may have a name that the property
`confluent:reserved` lists, and what one version reserves, the next one has to reserve.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from millstream.avro.parser import ParsedSchema
from millstream.avro.schema import Record
from millstream.registry.model.records import Content, canonical_json

RESERVED: Final = "confluent:reserved"
MERGED: Final = ("defaultMetadata", "overrideMetadata")

Json = Any


def is_metadata(value: Json) -> bool:
    """Whether a value has the shape of metadata."""
    if not isinstance(value, dict) or not value.keys() <= {"tags", "properties", "sensitive"}:
        return False
    tags, properties = value.get("tags") or {}, value.get("properties") or {}
    return (
        isinstance(tags, dict)
        and all(_is_texts(names) for names in tags.values())
        and isinstance(properties, dict)
        and _is_texts(list(properties.values()))
        and _is_texts(value.get("sensitive") or [])
    )


def with_configured_metadata(content: Content, previous: Content | None, config: Mapping[str, Json]) -> Content:
    """The content with the metadata that the nearest config gives it."""
    if not any(name in config for name in MERGED):
        return content
    own = content.metadata or (previous.metadata if previous is not None else "")
    merged = _merge(_merge(config.get("defaultMetadata") or {}, json.loads(own or "{}")), config.get("overrideMetadata") or {})
    return replace(content, metadata=canonical_json(merged))


def reserved_messages(content: Content, parsed: ParsedSchema, previous: Content | None) -> list[str]:
    """What is wrong with the fields that a schema reserves; empty if nothing is."""
    reserved = _reserved(content)
    removed = _reserved(previous) - reserved if previous is not None else set()
    fields = {field.name for field in parsed.root.fields} if isinstance(parsed.root, Record) else set()
    return [
        *(f"The new schema has reserved field {name} removed from its metadata which is present in the old schema's metadata."
          for name in sorted(removed)),
        *(f"The new schema has field that conflicts with the reserved field {name}." for name in sorted(reserved & fields)),
    ]  # fmt: skip


def property_of(content: Content, name: str) -> Json:
    """A property of the content's metadata."""
    metadata = json.loads(content.metadata) if content.metadata else {}
    return (metadata.get("properties") or {}).get(name)


def _reserved(content: Content) -> set[str]:
    return {name.strip() for name in str(property_of(content, RESERVED) or "").split(",")} - {""}


def _merge(old: Mapping[str, Json], new: Mapping[str, Json]) -> dict[str, Json]:
    merged: dict[str, Json] = {part: {**(old.get(part) or {}), **(new.get(part) or {})} for part in ("tags", "properties")}
    merged["sensitive"] = sorted({*(old.get("sensitive") or ()), *(new.get("sensitive") or ())})
    return {part: value for part, value in merged.items() if value}


def _is_texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
