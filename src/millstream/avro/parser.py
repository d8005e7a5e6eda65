"""From JSON text to a schema, by the rules of Avro's specification, within bounds.

Everything that is wrong raises `SchemaError` with the place (`/fields/1/type`) and what is wrong there. Two kinds of rules: without the
first a text is no schema (types, required attributes, known names, nothing defined twice); the second (`is_strict`) are those that older
registries did not enforce: how names are spelt, and that a default fits its field. A new schema has to keep both, one that is already
registered only the first, or it could not be compared with any more.

Named types may come from other schemas: `references` are texts that are read before, in order. A name that is not known in its namespace is
looked for without one, as Java's parser does.

Bounds: a text of `MAX_TEXT_BYTES`, `MAX_DEPTH` types within each other, `MAX_TYPES` types and fields in all.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from millstream.avro.defaults import why_not_a_default
from millstream.avro.schema import (
    NO_DEFAULT,
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Named,
    Primitive,
    Record,
    Schema,
    Union,
    namespace_of,
    short_name,
)

MAX_TEXT_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 100
MAX_TYPES: Final = 20_000

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
ORDERS: Final = ("ascending", "descending", "ignore")
OWN_ATTRIBUTES: Final = {
    "record": {"type", "name", "namespace", "doc", "aliases", "fields"},
    "error": {"type", "name", "namespace", "doc", "aliases", "fields"},
    "enum": {"type", "name", "namespace", "doc", "aliases", "symbols", "default"},
    "fixed": {"type", "name", "namespace", "doc", "aliases", "size"},
    "array": {"type", "items"},
    "map": {"type", "values"},
    "field": {"name", "type", "doc", "default", "order", "aliases"},
}


class SchemaError(Exception):
    """A text that is no schema."""


@dataclass(frozen=True, slots=True)
class ParsedSchema:
    """A schema, and the names that came from the schemas it refers to."""

    root: Schema
    foreign: frozenset[str] = frozenset()


def parse_schema(text: str, *, references: Iterable[str] = (), is_strict: bool = False) -> ParsedSchema:
    """The schema of a text; `references` are the texts of the schemas whose names it uses."""
    names: dict[str, Named] = {}
    for reference in references:
        _Parser(names, is_strict=False).parse(reference)
    foreign = frozenset(names)
    return ParsedSchema(_Parser(names, is_strict=is_strict).parse(text), foreign)


class _Parser:
    """Reads one text into `names`."""

    def __init__(self, names: dict[str, Named], *, is_strict: bool) -> None:
        self._names = names
        self._is_strict = is_strict
        self._types = 0

    def parse(self, text: str) -> Schema:
        if len(text) > MAX_TEXT_BYTES or len(text.encode(errors="surrogatepass")) > MAX_TEXT_BYTES:
            raise SchemaError(f"the schema is bigger than {MAX_TEXT_BYTES} bytes; split it with references")
        try:
            document = json.loads(text, parse_constant=_refuse_constant)
        except RecursionError:
            raise SchemaError(f"the schema is nested too deeply, deeper than {MAX_DEPTH} types") from None
        except ValueError as error:
            raise SchemaError(f"the schema is not JSON: {error}") from error
        try:
            # A name with half a surrogate pair cannot be stored.
            text.encode()
        except UnicodeEncodeError as error:
            raise SchemaError("the schema holds half of a surrogate pair") from error
        return self._type(document, namespace="", path="", depth=0)

    def _type(self, document: Json, *, namespace: str, path: str, depth: int) -> Schema:
        self._types += 1
        if depth > MAX_DEPTH:
            raise SchemaError(f"the schema is nested too deeply, deeper than {MAX_DEPTH} types")
        if self._types > MAX_TYPES:
            raise SchemaError(f"the schema has more than {MAX_TYPES} types and fields; split it with references")
        if isinstance(document, str):
            return self._by_name(document, namespace, path)
        if isinstance(document, list):
            return self._union(document, namespace=namespace, path=path, depth=depth)
        if isinstance(document, dict):
            return self._object(document, namespace=namespace, path=path, depth=depth)
        return _fail(path, f"a type is a name, a list or an object, and not {json.dumps(document)}")

    def _by_name(self, name: str, namespace: str, path: str) -> Schema:
        if name in PRIMITIVES:
            return Primitive(name)
        known = self._names.get(_qualified(name, namespace)) or self._names.get(name)
        if known is None:
            return _fail(path, f"{name!r} is no type that is known here: define it before, or refer to the schema that does")
        return known

    def _union(self, documents: list[Json], *, namespace: str, path: str, depth: int) -> Union:
        branches = []
        seen = set()
        for index, document in enumerate(documents):
            branch = self._type(document, namespace=namespace, path=f"{path}/{index}", depth=depth + 1)
            if isinstance(branch, Union):
                _fail(f"{path}/{index}", "a union may not directly hold another union")
            name = branch.fullname if isinstance(branch, Record | Enum | Fixed) else branch.kind
            if name in seen:
                _fail(f"{path}/{index}", f"the union holds {name!r} twice")
            seen.add(name)
            branches.append(branch)
        return Union(tuple(branches))

    def _object(self, document: dict[str, Json], *, namespace: str, path: str, depth: int) -> Schema:
        kind = document.get("type")
        if isinstance(kind, str):
            if kind in PRIMITIVES:
                return Primitive(kind, {name: value for name, value in document.items() if name != "type"})
            if kind in ("record", "error"):
                return self._record(document, namespace=namespace, path=path, depth=depth)
            if kind == "enum":
                return self._enum(document, namespace=namespace, path=path)
            if kind == "fixed":
                return self._fixed(document, namespace=namespace, path=path)
            if kind == "array":
                items = self._type(_needed(document, "items", path), namespace=namespace, path=f"{path}/items", depth=depth + 1)
                return Array(items, _properties(document, "array"))
            if kind == "map":
                values = self._type(_needed(document, "values", path), namespace=namespace, path=f"{path}/values", depth=depth + 1)
                return Map(values, _properties(document, "map"))
            return self._by_name(kind, namespace, f"{path}/type")
        if isinstance(kind, list | dict):
            # {"type": {"type": "int"}}: Java's parser reads it, and people write it.
            return self._type(kind, namespace=namespace, path=f"{path}/type", depth=depth + 1)
        return _fail(path, "an object needs a type")

    def _record(self, document: dict[str, Json], *, namespace: str, path: str, depth: int) -> Record:
        kind = str(document["type"])
        fullname = self._fullname(document, namespace, path)
        record = Record(
            fullname,
            aliases=self._aliases(document, namespace_of(fullname), path),
            doc=_doc(document, path),
            is_error=kind == "error",
            properties=_properties(document, kind),
        )
        self._define(record, path)
        listed = _needed(document, "fields", path)
        if not isinstance(listed, list):
            _fail(f"{path}/fields", "fields is a list")
        fields = []
        seen: set[str] = set()
        for index, field_document in enumerate(listed):
            place = f"{path}/fields/{index}"
            field = self._field(field_document, namespace=namespace_of(fullname), path=place, depth=depth)
            if field.name in seen:
                _fail(place, f"the record {fullname!r} has two fields {field.name!r}")
            seen.add(field.name)
            fields.append(field)
        record.fields = tuple(fields)
        if self._is_strict:
            self._check_defaults(record, path)
        return record

    def _field(self, document: Json, *, namespace: str, path: str, depth: int) -> Field:
        if not isinstance(document, dict):
            _fail(path, "a field is an object")
        name = _needed(document, "name", path)
        if not isinstance(name, str) or not name:
            _fail(f"{path}/name", "a name is a text that is not empty")
        self._check_spelling(name, f"{path}/name")
        order = document.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in ORDERS:
            _fail(f"{path}/order", f"order is one of {', '.join(ORDERS)}")
        return Field(
            name,
            self._type(_needed(document, "type", path), namespace=namespace, path=f"{path}/type", depth=depth + 1),
            doc=_doc(document, path),
            default=document.get("default", NO_DEFAULT),
            order=order.lower(),
            aliases=tuple(_texts(document, "aliases", path)),
            properties=_properties(document, "field"),
        )

    def _enum(self, document: dict[str, Json], *, namespace: str, path: str) -> Enum:
        fullname = self._fullname(document, namespace, path)
        _needed(document, "symbols", path)
        symbols = tuple(_texts(document, "symbols", path))
        if len(set(symbols)) < len(symbols):
            twice = next(symbol for symbol in symbols if symbols.count(symbol) > 1)
            _fail(f"{path}/symbols", f"the enum {fullname!r} has the symbol {twice!r} twice")
        for symbol in symbols:
            self._check_spelling(symbol, f"{path}/symbols")
        default = document.get("default")
        if default is not None and default not in symbols:
            _fail(f"{path}/default", f"the default {default!r} is none of the symbols of {fullname!r}")
        enum = Enum(
            fullname,
            symbols,
            aliases=self._aliases(document, namespace_of(fullname), path),
            doc=_doc(document, path),
            default=default,
            properties=_properties(document, "enum"),
        )
        self._define(enum, path)
        return enum

    def _fixed(self, document: dict[str, Json], *, namespace: str, path: str) -> Fixed:
        fullname = self._fullname(document, namespace, path)
        size = _needed(document, "size", path)
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
            _fail(f"{path}/size", "a size is a number from 0 on")
        fixed = Fixed(
            fullname,
            size,
            aliases=self._aliases(document, namespace_of(fullname), path),
            doc=_doc(document, path),
            properties=_properties(document, "fixed"),
        )
        self._define(fixed, path)
        return fixed

    # -- names

    def _fullname(self, document: Mapping[str, Json], namespace: str, path: str) -> str:
        name, own = _needed(document, "name", path), document.get("namespace")
        if not isinstance(name, str) or not name:
            _fail(f"{path}/name", "a name is a text that is not empty")
        if own is not None and not isinstance(own, str):
            _fail(f"{path}/namespace", "a namespace is a text")
        fullname = _qualified(name, namespace if own is None else own)
        if short_name(fullname) in PRIMITIVES:
            _fail(f"{path}/name", f"a type may not be called {short_name(fullname)!r}, as a primitive one")
        for part in fullname.split("."):
            self._check_spelling(part, f"{path}/name")
        return fullname

    def _aliases(self, document: Mapping[str, Json], namespace: str, path: str) -> tuple[str, ...]:
        return tuple(_qualified(alias, namespace) for alias in _texts(document, "aliases", path))

    def _define(self, schema: Named, path: str) -> None:
        if schema.fullname in self._names:
            _fail(path, f"the type {schema.fullname!r} is defined twice")
        self._names[schema.fullname] = schema

    def _check_spelling(self, name: str, path: str) -> None:
        if self._is_strict and not NAME.fullmatch(name):
            _fail(path, f"{name!r} is no name: names are letters, digits and _, and do not begin with a digit")

    def _check_defaults(self, record: Record, path: str) -> None:
        for index, field in enumerate(record.fields):
            if field.default is not NO_DEFAULT:
                reason = why_not_a_default(field.schema, field.default)
                if reason is not None:
                    _fail(
                        f"{path}/fields/{index}/default", f"the default of the field {record.fullname}.{field.name} does not fit: {reason}"
                    )


def _fail(path: str, what: str) -> NoReturn:
    raise SchemaError(f"{what} (at {path or '/'})")


def _needed(document: Mapping[str, Json], name: str, path: str) -> Json:
    if name not in document:
        _fail(path, f"{document.get('type', 'this')!r} needs {name!r}" if name != "name" or "type" in document else "a name is missing")
    return document[name]


def _doc(document: Mapping[str, Json], path: str) -> str | None:
    doc = document.get("doc")
    if doc is not None and not isinstance(doc, str):
        _fail(f"{path}/doc", "doc is a text")
    return doc


def _texts(document: Mapping[str, Json], name: str, path: str) -> list[str]:
    listed = document.get(name, [])
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        _fail(f"{path}/{name}", f"{name} is a list of names")
    return listed


def _properties(document: Mapping[str, Json], kind: str) -> dict[str, Json]:
    own = OWN_ATTRIBUTES[kind]
    return {name: value for name, value in document.items() if name not in own}


def _qualified(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
