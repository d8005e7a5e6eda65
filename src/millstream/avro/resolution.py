"""How a reader's schema meets a writer's: the specification's rules of schema resolution, each once.

    promotions     int to long, float, double; long to float, double; float to double; string to bytes and back
    names          match if their last parts do, or if an alias of the reader is the writer's full name
    fields         a reader's field is filled from the writer's of its name, otherwise of the first of its aliases that the writer has
    symbols        one that the reader does not know is read as the reader's default symbol, if there is one

`compatibility` asks them about whole schemas, and `millstream.arrow` compiles programs out of them that read messages.
"""

from typing import Final

from millstream.avro.schema import Enum, Field, Named, Record, Schema, short_name

PROMOTIONS: Final = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
"""By the reader's type, those of a writer that can be read as it."""


def is_promoted(writer: Schema, reader: Schema) -> bool:
    """Whether values of one type are read as another one."""
    return writer.kind in PROMOTIONS.get(reader.kind, ())


def names_match(writer: Named, reader: Named) -> bool:
    """Whether two named types mean the same."""
    return short_name(reader.fullname) == short_name(writer.fullname) or writer.fullname in reader.aliases


def field_sources(writer: Record, reader: Record) -> list[Field | None]:
    """For each field of the reader the writer's that it is filled from; None where there is no such field."""
    written = {field.name: field for field in writer.fields}
    return [next((written[name] for name in (field.name, *field.aliases) if name in written), None) for field in reader.fields]


def symbol_as_read(symbol: str, reader: Enum) -> str | None:
    """What the reader takes a symbol of the writer for."""
    return symbol if symbol in reader.symbols else reader.default
