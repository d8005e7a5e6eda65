"""Whether a reader with one schema understands what a writer wrote with another, by the specification's rules of schema resolution.

    same kind      array, map      items, values
                   fixed           same size, names match
                   enum            names match, every symbol of the writer is known to the reader or the reader has a default
                   record          names match, every field of the reader is found (by name or one of its aliases) or has a default
    unions         a writer's: the reader must understand every branch; a reader's: some branch must understand the writer
    decimals       both decimal: same scale and precision (where only one is, the bytes underneath are what counts)

Which names match, what is promoted and where a field comes from: see `resolution`. Other logical types do not matter, as in the
specification. Everything that breaks is reported, not only the first, each with its path in the reader's schema: as a JSON pointer and as
names of fields.

Apache's `avro.compatibility` is not used: see ADR 0015.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from millstream.avro.resolution import field_sources, is_promoted, names_match, symbol_as_read
from millstream.avro.schema import NO_DEFAULT, Array, Enum, Fixed, Map, Named, Record, Schema, Union, decimal_of, type_name

MAX_REPORTED: Final = 50

_Pair = tuple[int, int]
"""A record of the reader's and one of the writer's, by identity."""


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """One thing that breaks: Avro's name for it, where, and what."""

    kind: str
    pointer: str
    path: str
    detail: str


@dataclass(frozen=True, slots=True)
class _Place:
    """Where we are in the reader's schema: `/fields/1/type/items` and `User.orders[]`."""

    pointer: str = ""
    path: str = ""

    def into(self, pointer: str, path: str = "") -> "_Place":
        return _Place(f"{self.pointer}/{pointer}", self.path + path)


def incompatibilities(reader: Schema, writer: Schema) -> list[Incompatibility]:
    """What keeps the reader from understanding the writer, up to `MAX_REPORTED` things; empty if nothing does."""
    broken: dict[_Pair, Incompatibility] = {}
    while True:
        check = _Check(broken)
        place = _Place(path=type_name(reader) if isinstance(reader, Record) else "")
        try:
            found = list(islice(check.between(reader, writer, place), MAX_REPORTED))
        except RecursionError:
            return [_broken("TYPE_MISMATCH", place, "the types refer to each other too deeply to be compared")]
        if not check.assumed_too_much:
            return found
        broken = check.broken


class _Check:
    """One pass over two schemas, in which each pair of records is looked at once.

    A pair that contains itself is assumed to be compatible while it is looked at. If it then turns out not to be, what was concluded from
    the assumption may be wrong: `assumed_too_much`, and another pass has to be made that knows about the pair from the beginning. What is
    found broken under assumptions in its favour is broken, so the passes end.
    """

    def __init__(self, broken: dict[_Pair, Incompatibility]) -> None:
        self.assumed_too_much = False
        self.broken = dict(broken)
        self._known_broken = broken
        self._visited: set[_Pair] = set()
        self._in_progress: set[_Pair] = set()
        self._assumed: set[_Pair] = set()

    def between(self, reader: Schema, writer: Schema, place: _Place) -> Iterator[Incompatibility]:
        if isinstance(writer, Union):
            yield from self._from_union(reader, writer, place)
        elif isinstance(reader, Union):
            yield from self._into_union(reader, writer, place)
        elif reader.kind == writer.kind:
            yield from self._same_kind(reader, writer, place)
        elif not is_promoted(writer, reader):
            detail = f"the reader expects {type_name(reader)}, the writer wrote {type_name(writer)}"
            yield _broken("TYPE_MISMATCH", place, detail)

    def _from_union(self, reader: Schema, writer: Union, place: _Place) -> Iterator[Incompatibility]:
        for branch in writer.branches:
            if not isinstance(reader, Union):
                yield from self.between(reader, branch, place)
            elif not self._understands(reader, branch):
                detail = f"the reader's union has no branch for the writer's {type_name(branch)}{self._why(reader, branch)}"
                yield _broken("MISSING_UNION_BRANCH", place, detail)

    def _into_union(self, reader: Union, writer: Schema, place: _Place) -> Iterator[Incompatibility]:
        if not self._understands(reader, writer):
            detail = f"the reader's union has no branch for the writer's {type_name(writer)}{self._why(reader, writer)}"
            yield _broken("MISSING_UNION_BRANCH", place, detail)

    def _understands(self, reader: Union, writer: Schema) -> bool:
        return any(next(self.between(branch, writer, _Place(path=type_name(branch))), None) is None for branch in reader.branches)

    def _why(self, reader: Union, writer: Schema) -> str:
        """For the branch that was meant: what is wrong with it."""
        for index, branch in enumerate(reader.branches):
            if branch.kind == writer.kind and isinstance(branch, Record | Enum | Fixed | Array | Map):
                first = next(self.between(branch, writer, _Place(path=type_name(branch)).into(str(index))), None)
                if first is not None and first.kind != "NAME_MISMATCH":
                    return f" ({_in_short(first)})"
        return ""

    def _same_kind(self, reader: Schema, writer: Schema, place: _Place) -> Iterator[Incompatibility]:
        if isinstance(reader, Array) and isinstance(writer, Array):
            yield from self.between(reader.items, writer.items, place.into("items", "[]"))
        elif isinstance(reader, Map) and isinstance(writer, Map):
            yield from self.between(reader.values, writer.values, place.into("values", "{}"))
        elif isinstance(reader, Record) and isinstance(writer, Record):
            yield from self._records(reader, writer, place)
        elif isinstance(reader, Enum) and isinstance(writer, Enum):
            yield from _names(reader, writer, place)
            yield from _symbols(reader, writer, place)
        elif isinstance(reader, Fixed) and isinstance(writer, Fixed):
            yield from _names(reader, writer, place)
            if reader.size != writer.size:
                detail = f"the reader expects {reader.size} bytes, the writer wrote {writer.size}"
                yield _broken("FIXED_SIZE_MISMATCH", place.into("size"), detail)
        yield from _decimals(reader, writer, place)

    def _records(self, reader: Record, writer: Record, place: _Place) -> Iterator[Incompatibility]:
        pair = (id(reader), id(writer))
        if pair in self._visited:
            first = self.broken.get(pair) if pair not in self._in_progress else self._known_broken.get(pair)
            if first is not None:
                yield _broken("TYPE_MISMATCH", place, _in_short(first))
            elif pair in self._in_progress:
                self._assumed.add(pair)
            return
        self._visited.add(pair)
        self._in_progress.add(pair)
        found = [*_names(reader, writer, place), *self._fields(reader, writer, place)]
        self._in_progress.discard(pair)
        if found:
            self.broken[pair] = found[0]
            self.assumed_too_much |= pair in self._assumed
        yield from found

    def _fields(self, reader: Record, writer: Record, place: _Place) -> Iterator[Incompatibility]:
        for index, (field, source) in enumerate(zip(reader.fields, field_sources(writer, reader), strict=True)):
            at = place.into(f"fields/{index}", f".{field.name}")
            if source is not None:
                yield from self.between(field.schema, source.schema, at.into("type"))
            elif field.default is NO_DEFAULT:
                yield _broken("READER_FIELD_MISSING_DEFAULT_VALUE", at, field.name)


def _names(reader: Named, writer: Named, place: _Place) -> Iterator[Incompatibility]:
    if not names_match(writer, reader):
        detail = f"the reader expects {reader.fullname}, the writer wrote {writer.fullname}, which is no alias of it"
        yield _broken("NAME_MISMATCH", place.into("name"), detail)


def _symbols(reader: Enum, writer: Enum, place: _Place) -> Iterator[Incompatibility]:
    missing = [symbol for symbol in writer.symbols if symbol_as_read(symbol, reader) is None]
    if missing:
        yield _broken("MISSING_ENUM_SYMBOLS", place.into("symbols"), f"[{', '.join(missing)}]")


def _decimals(reader: Schema, writer: Schema, place: _Place) -> Iterator[Incompatibility]:
    expected, wrote = decimal_of(reader), decimal_of(writer)
    if expected is not None and wrote is not None and expected != wrote:
        detail = "the reader expects decimal({}, {}), the writer wrote decimal({}, {})".format(*expected, *wrote)
        yield _broken("TYPE_MISMATCH", place, detail)


def _in_short(found: Incompatibility) -> str:
    if found.kind == "READER_FIELD_MISSING_DEFAULT_VALUE":
        return f"{found.path} has no default and the writer did not write it"
    return f"{found.path}: {found.detail}"


def _broken(kind: str, place: _Place, detail: str) -> Incompatibility:
    return Incompatibility(kind, place.pointer or "/", place.path or "the schema itself", detail)
