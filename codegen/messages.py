"""Writes `wire/requests` and `wire/responses`: a module per API with the named tuples of its messages, and their layout over all versions.

Everything comes from kio's schemas, which are Kafka's. The classes have every field that any version has; one that a version lacks has
Kafka's default. `tests/properties/test_wire_messages.py` holds what is read and written with them equal to kio, byte for byte.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from codegen.kio_schema import REQUIRED, KioField, KioSchema, describe, entity_class, plain
from millstream.wire.api import API_VERSIONS, ApiKey
from millstream.wire.schema import NUMBER_FORMATS, STRUCTURE

KINDS: Final = ("request", "response")
_TYPES: Final = {"string": "str", "bytes": "bytes", "records": "bytes", "uuid": "UUID", "bool": "bool", "float64": "float"}
_OF_TUPLES: Final = dict.fromkeys(("count", "index"), "  # type: ignore[assignment]  # hides a method of tuples that is not called")
_IMPLICIT: Final = {"string": '""', "bytes": 'b""', "records": 'b""', "uuid": "None", "bool": "False", "float64": "0.0"}


@dataclass
class MergedField:
    """A field over all versions that have it."""

    description: KioField
    first: int
    last: int
    nullable_from: int | None
    nested: "MergedStructure | None"


@dataclass
class MergedStructure:
    """A message or structure over all versions."""

    name: str
    shared: dict[str, "MergedStructure"]
    """All structures of the message: one may stand in several places, in other versions in each."""
    fields: dict[str, MergedField] = field(default_factory=dict)

    def add(self, schema: KioSchema, version: int) -> None:
        """Take a version in; versions come in their order."""
        place = 0
        for one in schema.fields:
            known = self.fields.get(one.kafka_name)
            if known is None:
                known = MergedField(one, version, version, version if one.is_nullable else None, self._structure(one.nested))
                self._insert(place, one.kafka_name, known)
            assert (known.description.kind, known.description.is_array, known.description.tag) == (one.kind, one.is_array, one.tag)
            assert version - known.last <= 1, f"{self.name}.{one.name} is missing in a version between two others"
            known.last = version
            if one.is_nullable and known.nullable_from is None:
                known.nullable_from = version
            if one.nested is not None:
                assert known.nested is not None
                known.nested.add(one.nested, version)
            place = list(self.fields).index(one.kafka_name) + 1

    def _structure(self, schema: KioSchema | None) -> "MergedStructure | None":
        if schema is None:
            return None
        name = schema.entity.__name__
        return self.shared.setdefault(name, MergedStructure(name, self.shared))

    def _insert(self, place: int, name: str, merged: MergedField) -> None:
        items = list(self.fields.items())
        items.insert(place, (name, merged))
        self.fields = dict(items)

    def structures(self) -> Iterator["MergedStructure"]:
        """The structures inside, innermost first, then this one."""
        for one in self.fields.values():
            if one.nested is not None:
                yield from one.nested.structures()
        yield self


def merged(api_key: int, kind: str) -> MergedStructure:
    """A request or response over all its versions."""
    versions = API_VERSIONS[api_key]
    top = describe(entity_class(api_key, versions.lowest, kind))
    structure = MergedStructure(top.entity.__name__, {})
    for version in range(versions.lowest, versions.highest + 1):
        structure.add(describe(entity_class(api_key, version, kind)), version)
    return structure


def module_source(api_key: ApiKey, kind: str) -> str:
    """The text of a module, one line per field."""
    message = merged(api_key, kind)
    versions = API_VERSIONS[api_key]
    written: dict[str, str] = {}
    for structure in message.structures():
        source = _class(structure, is_message=structure is message) + _layout(structure, is_message=structure is message)
        written.setdefault(structure.name, source)
    body = "".join(written.values())
    names = ["STRUCTURE", "Field", "Layout"] if "STRUCTURE" in body else ["Field", "Layout"]
    title = f"{message.name} (key {int(api_key)}), versions {versions.lowest} to {versions.highest}"
    return (
        f'"""{title}. Written by `codegen.messages`: do not edit."""\n\nfrom typing import Final, NamedTuple\n'
        + ("from uuid import UUID\n" if "UUID" in body else "")
        + f"\nfrom millstream.wire.schema import {', '.join(names)}\n"
        + body
    )


def _class(structure: MergedStructure, *, is_message: bool) -> str:
    fields = "".join(
        f"    {name}: {_annotation(one)} = {_default(one)}{_OF_TUPLES.get(name, '')}\n" for name, one in structure.fields.items()
    )
    said = "The message." if is_message else "A part of it."
    return f'\n\nclass {structure.name}(NamedTuple):\n    """{said}"""\n' + (f"\n{fields}" if fields else "")


def _annotation(one: MergedField) -> str:
    description = one.description
    element = one.nested.name if one.nested is not None else _TYPES.get(description.kind, "int")
    annotation = f"tuple[{element}, ...]" if description.is_array else element
    is_optional = one.nullable_from is not None or (description.kind == "uuid" and not description.is_array)
    return f"{annotation} | None" if is_optional else annotation


def _default(one: MergedField) -> str:
    """Kafka's default: the field's own, or none, nothing, zero."""
    description = one.description
    if description.default is not REQUIRED:
        return _literal(one)
    if description.is_array:
        return "()"
    if one.nested is not None:
        return "None" if one.nullable_from is not None else f"{one.nested.name}()"
    return _IMPLICIT.get(description.kind, "0")


def _literal(one: MergedField) -> str:
    description = one.description
    if one.nested is None or description.is_array or description.default is None:
        value = plain(description, description.default)
        assert value == () or one.nested is None or value is None
        return _number(value, description.kind)
    assert one.nested is not None
    assert all(
        getattr(description.default, inner.description.name) == _kio_default(inner.description) for inner in one.nested.fields.values()
    ), f"the default of {description.name} is not its structure's own"
    return f"{one.nested.name}()"


def _kio_default(description: KioField) -> Any:
    if description.default is not REQUIRED:
        return description.default
    return {"string": "", "bytes": b"", "bool": False, "uuid": None}.get(description.kind, 0)


def _number(value: Any, kind: str) -> str:
    if isinstance(value, bool | str | bytes | None | tuple):
        return f'"{value}"' if isinstance(value, str) else repr(value)
    return repr(float(value)) if kind == "float64" else repr(int(value))


def _layout(structure: MergedStructure, *, is_message: bool) -> str:
    fields = [_field(name, one) for name, one in structure.fields.items()]
    together = (
        f"({fields[0]},)" if len(fields) == 1 else "(" + "".join(f"\n        {one}," for one in fields) + ("\n    )" if fields else ")")
    )
    name = "LAYOUT" if is_message else _constant(structure.name)
    return f"\n\n{name}: Final = Layout(\n    {structure.name},\n    {together},\n)\n"


def _constant(class_name: str) -> str:
    """FetchPartition -> FETCH_PARTITION."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).upper()


def _field(name: str, one: MergedField) -> str:
    description = one.description
    kind = "STRUCTURE" if description.kind == STRUCTURE else f'"{description.kind}"'
    assert description.kind == STRUCTURE or description.kind in NUMBER_FORMATS or description.kind in _TYPES
    arguments = [f'"{name}"', kind, str(one.first), str(one.last)]
    if description.default is not REQUIRED:
        arguments.append(f"default={_literal(one)}")
    if description.is_array:
        arguments.append("is_array=True")
    if one.nullable_from is not None:
        arguments.append(f"nullable_from={one.nullable_from}")
    if description.tag is not None:
        arguments.append(f"tag={description.tag}")
    if one.nested is not None:
        arguments.append(f"nested={_constant(one.nested.name)}")
    return f"Field({', '.join(arguments)})"


def sources(folder: Path) -> Iterable[tuple[Path, str]]:
    """Every module to be, with its text."""
    for kind in KINDS:
        package = folder / f"{kind}s"
        yield (
            package / "__init__.py",
            f'"""Kafka\'s {kind}s as named tuples, a module per API, with their layouts. Written by `codegen.messages`: do not edit."""\n',
        )
        for api_key in API_VERSIONS:
            yield package / f"{ApiKey(api_key).name.lower()}.py", module_source(ApiKey(api_key), kind)
