"""The seven levels: who has to read whom, and which versions count."""

import pytest

from millstream.avro.levels import Earlier, Level, compatibility_messages
from tests.unit.avro.schemas import field, record, schema

BASE = record(field("a", "int"))
WITH_DEFAULT = record(field("a", "int"), field("b", "int", default=1))
WITHOUT_DEFAULT = record(field("a", "int"), field("b", "int"))
EMPTY = record()


def allows(level: Level, new: object, *earlier: object) -> bool:
    versions = [Earlier(number, schema(one), "text") for number, one in enumerate(earlier, 1)]
    return compatibility_messages(level, schema(new), versions) == []


@pytest.mark.parametrize(
    ("level", "allowed"),
    [
        (Level.NONE, {"same", "add with default", "add", "remove"}),
        (Level.BACKWARD, {"same", "add with default", "remove"}),
        (Level.FORWARD, {"same", "add with default", "add"}),
        (Level.FULL, {"same", "add with default"}),
        (Level.BACKWARD_TRANSITIVE, {"same", "add with default", "remove"}),
        (Level.FORWARD_TRANSITIVE, {"same", "add with default", "add"}),
        (Level.FULL_TRANSITIVE, {"same", "add with default"}),
    ],
)
def test_a_level_allows_what_it_says(level: Level, allowed: set[str]) -> None:
    changes = {"same": BASE, "add with default": WITH_DEFAULT, "add": WITHOUT_DEFAULT, "remove": EMPTY}
    assert {name for name, new in changes.items() if allows(level, new, BASE)} == allowed


def test_only_transitive_levels_look_at_all_versions() -> None:
    # Each step is fine; the last schema cannot read what the first wrote, which had b as a text.
    first, second, third = record(field("b", "string")), record(), record(field("b", "int", default=1))
    assert allows(Level.BACKWARD, third, first, second)
    assert not allows(Level.BACKWARD_TRANSITIVE, third, first, second)
    assert allows(Level.FULL, third, first, record())
    assert not allows(Level.FULL_TRANSITIVE, third, first, second)


def test_a_first_version_is_always_allowed() -> None:
    assert all(allows(level, WITHOUT_DEFAULT) for level in Level)


def test_messages_say_which_schema_lacks_what_and_with_which_version() -> None:
    versions = [Earlier(4, schema(BASE), "the old text")]
    backward = compatibility_messages(Level.BACKWARD, schema(WITHOUT_DEFAULT), versions)
    assert backward[0] == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path '/fields/1' (R.b) of the new schema has no "
        "default value and is missing in the old schema', additionalInfo:'b'}"
    )
    assert backward[1:] == ["{oldSchemaVersion: 4}", "{oldSchema: 'the old text'}", "{compatibility: 'BACKWARD'}"]
    forward = compatibility_messages(Level.FORWARD, schema(EMPTY), versions)
    assert "of the old schema has no default value and is missing in the new schema" in forward[0]
