"""The seven levels of compatibility, and what a subject's level asks of a new schema.

    NONE                    nothing
    BACKWARD[_TRANSITIVE]   the new schema reads what the latest version (every version) wrote
    FORWARD[_TRANSITIVE]    the latest version (every version) reads what the new schema writes
    FULL[_TRANSITIVE]       both

Messages have the shape of Confluent's, which tools take apart: `{errorType:'...', description:'...', additionalInfo:'...'}`, then the
version that does not fit. The description says the path of the field.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from millstream.avro.compatibility import Incompatibility, incompatibilities
from millstream.avro.schema import Schema


class Level(StrEnum):
    """What a subject asks of a new version."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """Whether all versions count, and not the latest alone."""
        return self.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        """Whether the new schema has to read old data."""
        return self.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """Whether old schemas have to read new data."""
        return self.startswith(("FORWARD", "FULL"))


@dataclass(frozen=True, slots=True)
class Earlier:
    """A version that is there already."""

    version: int
    schema: Schema
    text: str


def compatibility_messages(level: Level, schema: Schema, earlier: Sequence[Earlier]) -> list[str]:
    """Why the schema may not follow the earlier versions (oldest first); empty if it may."""
    asked = earlier if level.is_transitive else earlier[-1:]
    for one in reversed(asked if level is not Level.NONE else ()):
        found = list(_messages(level, schema, one))
        if found:
            return [*found, f"{{oldSchemaVersion: {one.version}}}", f"{{oldSchema: '{one.text}'}}", f"{{compatibility: '{level}'}}"]
    return []


def _messages(level: Level, schema: Schema, earlier: Earlier) -> Iterator[str]:
    if level.is_backward:
        for found in incompatibilities(schema, earlier.schema):
            yield _message(found, reader="new", writer="old")
    if level.is_forward:
        for found in incompatibilities(earlier.schema, schema):
            yield _message(found, reader="old", writer="new")


def _message(found: Incompatibility, *, reader: str, writer: str) -> str:
    place = f"at path '{found.pointer}' ({found.path})"
    described = {
        "FIXED_SIZE_MISMATCH": f"The size of the fixed type {place} of the {reader} schema differs from the {writer} schema",
        "TYPE_MISMATCH": f"The type {place} of the {reader} schema does not match the {writer} schema",
        "NAME_MISMATCH": f"The name of the type has changed {place}",
        "MISSING_ENUM_SYMBOLS": f"The {reader} schema lacks enum symbols {found.detail} {place} that the {writer} schema has",
        "MISSING_UNION_BRANCH": f"The {reader} schema lacks a branch of the union {place} that the {writer} schema has",
        "READER_FIELD_MISSING_DEFAULT_VALUE": f"The field '{found.detail}' {place} of the {reader} schema has no default value "
        f"and is missing in the {writer} schema",
    }[found.kind]
    detail = found.detail.replace("the reader", f"the {reader} schema").replace("the writer", f"the {writer} schema")
    return f"{{errorType:'{found.kind}', description:'{described}', additionalInfo:'{detail}'}}"
