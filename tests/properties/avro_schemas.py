"""Random Avro schemas, random ways in which they evolve, and for every schema values that use each of its branches and symbols once."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

Document = Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
FIELD_NAMES = ("a", "b", "c", "d")
SYMBOLS = ("A", "B", "C", "D")
VALUES: dict[str, list[Any]] = {
    "null": [None],
    "boolean": [True],
    "int": [7],
    "long": [2**40],
    "float": [0.5],
    "double": [1e300],
    "bytes": [b"xy"],
    "string": ["text"],
}
DEFAULTS: dict[str, Any] = {
    "null": None, "boolean": False, "int": 1, "long": 2, "float": 0.5, "double": 0.25, "bytes": "b", "string": "s"
}  # fmt: skip


def primitives() -> st.SearchStrategy[Document]:
    return st.sampled_from(PRIMITIVES)


def enums() -> st.SearchStrategy[Document]:
    def build(name: str, symbols: list[str], has_default: bool) -> Document:
        enum: dict[str, Any] = {"type": "enum", "name": name, "symbols": symbols}
        return {**enum, "default": symbols[0]} if has_default else enum

    return st.builds(build, st.sampled_from(("E", "F")), st.lists(st.sampled_from(SYMBOLS), min_size=1, unique=True), st.booleans())


def fixeds() -> st.SearchStrategy[Document]:
    return st.builds(lambda name, size: {"type": "fixed", "name": name, "size": size}, st.sampled_from(("X", "Y")), st.integers(1, 3))


def records(inner: st.SearchStrategy[Document]) -> st.SearchStrategy[Document]:
    def build(name: str, fields: list[tuple[str, Document, bool]], recursive: bool) -> Document:
        documents = [_field(field, kind, has_default=has_default) for field, kind, has_default in fields]
        if recursive:
            documents.append({"name": "next", "type": ["null", name], "default": None})
        return {"type": "record", "name": name, "fields": documents}

    pairs = st.tuples(st.sampled_from(FIELD_NAMES), inner, st.booleans())
    fields = st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
    return st.builds(build, st.sampled_from(("R", "S", "T")), fields, st.booleans())


def schemas() -> st.SearchStrategy[Document]:
    """A schema in which no name is defined twice."""

    def extend(inner: st.SearchStrategy[Document]) -> st.SearchStrategy[Document]:
        not_unions = inner.filter(lambda kind: not isinstance(kind, list))
        return st.one_of(
            st.builds(lambda items: {"type": "array", "items": items}, inner),
            st.builds(lambda values: {"type": "map", "values": values}, inner),
            st.lists(not_unions, min_size=1, max_size=3, unique_by=branch_name),
            records(inner),
        )

    return st.recursive(st.one_of(primitives(), enums(), fixeds()), extend, max_leaves=6).filter(_defines_nothing_twice)


def pairs() -> st.SearchStrategy[tuple[Document, Document]]:
    """Two schemas: the second has evolved from the first, or has nothing to do with it."""
    return st.one_of(schemas().flatmap(lambda one: st.tuples(st.just(one), evolutions(one))), st.tuples(schemas(), schemas()))


def evolutions(document: Document) -> st.SearchStrategy[Document]:
    """What may become of a schema: some of its parts changed, at random places."""

    @st.composite
    def evolved(draw: st.DrawFn) -> Document:
        changed: Document = json.loads(json.dumps(document))
        for _ in range(draw(st.integers(1, 3))):
            changed = _change(draw, changed)
        return changed

    return evolved().filter(_defines_nothing_twice)


def _change(draw: st.DrawFn, document: Document) -> Document:
    if isinstance(document, list):
        return _change_union(draw, document)
    if isinstance(document, str):
        if document not in PRIMITIVES:
            return document
        optional: list[Document] = [] if document == "null" else [["null", document]]
        return draw(st.sampled_from([*PRIMITIVES, *optional]))
    kind = document["type"]
    if kind == "array":
        return {**document, "items": _change(draw, document["items"])}
    if kind == "map":
        return {**document, "values": _change(draw, document["values"])}
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, unique=True))
        default = {"default": symbols[0]} if draw(st.booleans()) else {}
        return {"type": "enum", "name": document["name"], "symbols": symbols, **default}
    if kind == "fixed":
        return {**document, "size": draw(st.integers(1, 3))}
    if kind == "record":
        return _change_record(draw, document)
    return document


def _change_union(draw: st.DrawFn, branches: list[Document]) -> Document:
    choice = draw(st.sampled_from(("add", "remove", "change", "one")))
    names = {branch_name(branch) for branch in branches}
    if choice == "add":
        new = draw(st.sampled_from(PRIMITIVES))
        return branches if new in names else [*branches, new]
    place = draw(st.integers(0, len(branches) - 1))
    if choice == "remove" and len(branches) > 1:
        return branches[:place] + branches[place + 1 :]
    if choice == "one":
        return branches[place]
    changed = _change(draw, branches[place])
    others = {branch_name(branch) for index, branch in enumerate(branches) if index != place}
    if isinstance(changed, list) or branch_name(changed) in others:
        return branches
    return [*branches[:place], changed, *branches[place + 1 :]]


def _change_record(draw: st.DrawFn, document: Document) -> Document:
    fields = list(document["fields"])
    choice = draw(st.sampled_from(("add", "remove", "change", "rename", "alias", "rename record")))
    if choice == "rename record":
        return {**document, "aliases": [document["name"]]} if draw(st.booleans()) else document
    free = [name for name in FIELD_NAMES if name not in {field["name"] for field in fields}]
    if choice == "add" and free:
        kind = draw(st.sampled_from(PRIMITIVES))
        fields.append(_field(free[0], kind, has_default=draw(st.booleans())))
    elif fields and choice != "add":
        place = draw(st.integers(0, len(fields) - 1))
        field = fields[place]
        if choice == "remove":
            fields.pop(place)
        elif choice == "change":
            fields[place] = {"name": field["name"], "type": _change(draw, field["type"])}
        elif free and choice == "rename":
            fields[place] = {**field, "name": free[0]}
        elif field["name"] in FIELD_NAMES:
            # A name that the writer does not have: which of two fields a reader means by one and an alias is not specified.
            fields[place] = {**field, "name": f"{field['name']}_new", "aliases": [field["name"]]}
    return {**document, "fields": fields}


def _field(name: str, kind: Document, *, has_default: bool) -> Document:
    field = {"name": name, "type": kind}
    default = _default(kind)
    return {**field, "default": default[0]} if has_default and default else field


def _default(kind: Document) -> list[Any]:
    """One value that can be a default, or none."""
    if isinstance(kind, str):
        return [DEFAULTS[kind]] if kind in DEFAULTS else []
    if isinstance(kind, list):
        return _default(kind[0])
    if kind["type"] == "enum":
        return [kind["symbols"][0]]
    if kind["type"] == "fixed":
        return ["z" * kind["size"]]
    empty: dict[str, list[Any]] = {"array": [[]], "map": [{}]}
    return empty.get(kind["type"], [])


def branch_name(kind: Document) -> str:
    if isinstance(kind, dict):
        return str(kind.get("name") or kind["type"])
    return str(kind)


def _defines_nothing_twice(document: Document) -> bool:
    names = [one["name"] for one in _walk(document) if "name" in one and one.get("type") in ("record", "enum", "fixed")]
    return len(names) == len(set(names))


def _walk(document: Document) -> Iterator[dict[str, Any]]:
    if isinstance(document, list):
        for one in document:
            yield from _walk(one)
    elif isinstance(document, dict):
        yield document
        for name in ("items", "values", "type"):
            if isinstance(document.get(name), dict | list):
                yield from _walk(document[name])
        for field in document.get("fields", ()):
            yield from _walk(field["type"])


def witnesses(kind: Document, depth: int = 0) -> list[Any]:
    """Values that together use every branch, every symbol and every field; unions as fastavro's tuples, so that no branch is guessed."""
    if isinstance(kind, str):
        return VALUES.get(kind, [])
    if isinstance(kind, list):
        return [_in_branch(branch, value) for branch in kind for value in witnesses(branch, depth)]
    if kind["type"] == "array":
        return [[], *([value] for value in witnesses(kind["items"], depth))]
    if kind["type"] == "map":
        return [{}, *({"k": value} for value in witnesses(kind["values"], depth))]
    if kind["type"] == "enum":
        return list(kind["symbols"])
    if kind["type"] == "fixed":
        return [b"w" * kind["size"]]
    columns = {field["name"]: witnesses(field["type"], depth) for field in kind["fields"]}
    rows = max((len(values) for values in columns.values()), default=1)
    if any(not values for values in columns.values()):
        return []
    found: list[Any] = [{name: values[row % len(values)] for name, values in columns.items()} for row in range(rows)]
    if depth == 0 and any(field["name"] == "next" for field in kind["fields"]):
        found += [{**found[0], "next": (kind["name"], one)} for one in found]
    return found


def _in_branch(branch: Document, value: Any) -> Any:
    return None if value is None else (branch_name(branch), value)
