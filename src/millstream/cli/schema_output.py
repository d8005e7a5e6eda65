"""How schemas and compatibility errors look on a terminal."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millstream.registry.client import RegisteredSchema

MESSAGE = re.compile(r"\{errorType:'(?P<kind>[^']*)', description:'(?P<what>.*)', additionalInfo:'(?P<detail>.*)'\}", re.DOTALL)
VERSION = re.compile(r"\{oldSchemaVersion: (?P<version>-?\d+)\}")


def print_schema(schema: "RegisteredSchema") -> None:
    """A line about the schema, what it refers to, and the schema itself with indentation."""
    facts = [f"{name} {value}" for name, value in (("id", schema.schema_id), ("guid", schema.guid)) if value not in (None, -1)]
    place = f"{schema.subject} version {schema.version}" if schema.subject else "schema"
    print("  ".join([place, *facts]))
    for one in schema.references:
        print(f"refers to {one.name}: {one.subject} version {one.version}")
    try:
        print(json.dumps(json.loads(schema.schema), indent=2, ensure_ascii=False))
    except ValueError:
        # Another registry may hold schemas of other types.
        print(schema.schema)


def schema_document(schema: "RegisteredSchema") -> dict[str, Any]:
    """The same for programs."""
    return {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.schema_id,
        "guid": schema.guid,
        "type": schema.schema_type,
        "schema": schema.schema,
        "references": [{"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references],
    }


def compatibility_lines(messages: Iterable[str]) -> Iterator[str]:
    """One line per thing that breaks, and the version that it breaks with; a message of another shape as it is."""
    for message in messages:
        found, version = MESSAGE.fullmatch(message), VERSION.fullmatch(message)
        if found is not None:
            yield f"{found['kind']}: {found['what']} ({found['detail']})"
        elif version is not None:
            yield f"  (with version {version['version']})"
        elif not message.startswith(("{oldSchema:", "{compatibility:", "{validateFields:")):
            yield message
