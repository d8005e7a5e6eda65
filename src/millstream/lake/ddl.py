"""Columns written as Spark writes them, `id BIGINT, tags ARRAY<STRING>`, as types of Arrow: read without Spark, so that a mistake is known
before it starts.

    columns    name type [, ...]           a name with other letters than a-z, digits and _ stands in backquotes
    type       BOOLEAN  TINYINT|BYTE  SMALLINT|SHORT  INT|INTEGER  BIGINT|LONG  FLOAT|REAL  DOUBLE  DECIMAL[(p[,s])]
               STRING  BINARY  DATE  TIMESTAMP  TIMESTAMP_NTZ
               ARRAY<type>  MAP<type, type>  STRUCT<name[:] type, ...>

`NOT NULL` and `COMMENT '...'` after a column are read over: a table takes nulls wherever they come.
"""

import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from millstream.errors import UsageError

_WORD: Final = re.compile(r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.)*')|(?P<word>\w+)|(?P<sign>[<>(),:]))")
_SIMPLE: Final = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "byte": pa.int8(), "smallint": pa.int16(), "short": pa.int16(), "int": pa.int32(),
    "integer": pa.int32(), "bigint": pa.int64(), "long": pa.int64(), "float": pa.float32(), "real": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "binary": pa.binary(), "date": pa.date32(), "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_DECIMALS: Final = frozenset({"decimal", "dec", "numeric"})
_MOST_DIGITS: Final = 38
_DEEPEST: Final = 50


def parse_columns(ddl: str) -> pa.StructType:
    """The columns as one type; `UsageError` says what cannot be read, and where."""
    return _Parser(ddl).columns()


class _Parser:
    """Reads one text from left to right; the next token is always at hand."""

    def __init__(self, ddl: str) -> None:
        self._ddl = ddl
        self._next_words = self._split()
        self._depth = 0
        self._kind, self._next_word = next(self._next_words)

    def columns(self) -> pa.StructType:
        fields = self._fields(end="")
        if not fields:
            raise self._mistake("there is no column")
        return pa.struct(fields)

    def _fields(self, *, end: str) -> list[pa.Field]:
        """Columns or fields, up to the sign that ends them."""
        fields: list[pa.Field] = []
        while not (self._next_word == end and self._kind != "quoted"):
            if fields:
                self._expect(",")
            name = self._name()
            if self._next_word == ":":
                self._next()
            fields.append(pa.field(name, self._type()))
            self._read_over_rest()
        names = [field.name.lower() for field in fields]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise self._mistake(f"there are two columns {twice}")
        return fields

    def _name(self) -> str:
        if self._kind not in {"word", "quoted"}:
            raise self._mistake("the name of a column is missing")
        name = self._next()
        return name[1:-1].replace("``", "`") if name.startswith("`") else name

    def _type(self) -> pa.DataType:
        if self._kind != "word":
            raise self._mistake("a type is missing")
        name = self._next().lower()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in _DECIMALS:
            return self._decimal()
        if name not in {"array", "map", "struct"}:
            known = ", ".join([*(one.upper() for one in _SIMPLE), "DECIMAL", "ARRAY", "MAP", "STRUCT"])
            raise self._mistake(f"{name.upper()} is no type; there are {known}")
        return self._nested(name)

    def _nested(self, name: str) -> pa.DataType:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._mistake(f"types are nested more than {_DEEPEST} deep")
        self._expect("<")
        kind: pa.DataType
        if name == "array":
            kind = pa.list_(self._type())
        elif name == "map":
            key = self._type()
            self._expect(",")
            kind = pa.map_(key, self._type())
        else:
            kind = pa.struct(self._fields(end=">"))
        self._expect(">")
        self._depth -= 1
        return kind

    def _decimal(self) -> pa.DataType:
        precision, scale = 10, 0
        if self._next_word == "(":
            self._next()
            precision = self._number()
            if self._next_word == ",":
                self._next()
                scale = self._number()
            self._expect(")")
        if not 1 <= precision <= _MOST_DIGITS or scale > precision:
            raise self._mistake(f"DECIMAL({precision},{scale}) has no such digits: at most {_MOST_DIGITS}, and no more after the point")
        return pa.decimal128(precision, scale)

    def _number(self) -> int:
        if not self._next_word.isdecimal():
            raise self._mistake("a number of digits is missing")
        return int(self._next()[:9])

    def _read_over_rest(self) -> None:
        if self._kind == "word" and self._next_word.upper() == "NOT":
            self._next()
            if self._next_word.upper() != "NULL":
                raise self._mistake("NOT is followed by NULL")
            self._next()
        if self._kind == "word" and self._next_word.upper() == "COMMENT":
            self._next()
            if self._kind != "text":
                raise self._mistake("COMMENT is followed by a text in quotes")
            self._next()

    def _expect(self, sign: str) -> None:
        if self._next_word != sign:
            raise self._mistake(f"{sign!r} is missing")
        self._next()

    def _next(self) -> str:
        token = self._next_word
        self._kind, self._next_word = next(self._next_words, ("", ""))
        return token

    def _split(self) -> Iterator[tuple[str, str]]:
        position, end = 0, len(self._ddl.rstrip())
        while position < end:
            found = _WORD.match(self._ddl, position)
            if found is None:
                raise UsageError(f"{self._ddl!r} is no list of columns like 'id BIGINT, name STRING': what is at {self._ddl[position:]!r}?")
            assert found.lastgroup is not None, "one of the groups matched"
            yield found.lastgroup, found[found.lastgroup]
            position = found.end()
        yield "", ""

    def _mistake(self, problem: str) -> UsageError:
        where = f"before {self._next_word!r}" if self._next_word else "at its end"
        return UsageError(f"{self._ddl!r} is no list of columns like 'id BIGINT, name STRING': {problem}, {where}")
