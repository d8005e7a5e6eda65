"""A version of a subject, as the log holds it, and the GUID that its content has everywhere.

The GUID is the MD5 of the text and, if there are any, references, metadata and rules, as Confluent's registry computes it: the same
schema has the same GUID in every registry and every context. Metadata and rules are kept and answered, and make two schemas different;
nothing is done with them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from millstream.registry.client import Reference
from millstream.registry.records import LogRecord, references_document, references_of, schema_key


@dataclass(frozen=True, slots=True)
class Content:
    """What makes a schema what it is, wherever it is registered."""

    text: str
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    """JSON, or empty."""
    rule_set: str = ""
    schema_type: str = "AVRO"

    @property
    def guid(self) -> str:
        """The GUID, in the usual form with dashes."""
        digest = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for reference in self.references:
            digest.update(reference.name.encode() + reference.subject.encode() + reference.version.to_bytes(4, "big", signed=True))
        if self.metadata:
            digest.update(b"\x01" + b"".join(_hashed(json.loads(self.metadata), ("tags", "properties", "sensitive"))))
        if self.rule_set:
            digest.update(b"\x01" + self.rule_set.encode())
        return str(UUID(bytes=digest.digest()))

    def document(self) -> dict[str, Any]:
        """The content as it is answered and stored, beside what else is."""
        document: dict[str, Any] = {}
        if self.references:
            document["references"] = references_document(self.references)
        if self.metadata:
            document["metadata"] = json.loads(self.metadata)
        if self.rule_set:
            document["ruleSet"] = json.loads(self.rule_set)
        return document


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """One version of one subject."""

    subject: str
    version: int
    schema_id: int
    content: Content
    guid: str
    is_deleted: bool = False

    def record(self) -> LogRecord:
        """The record that says so."""
        value: dict[str, Any] = {"subject": self.subject, "version": self.version, "id": self.schema_id}
        if self.content.schema_type != "AVRO":
            value["schemaType"] = self.content.schema_type
        value |= {**self.content.document(), "schema": self.content.text, "deleted": self.is_deleted}
        return LogRecord(schema_key(self.subject, self.version), value)


def stored_version(value: Mapping[str, Any], *, subject: str, version: int) -> StoredVersion:
    """The version that a record's value describes; raises KeyError, TypeError or ValueError if it does not."""
    content = Content(
        text=str(value["schema"]),
        references=references_of(value),
        metadata=canonical_json(value.get("metadata")),
        rule_set=canonical_json(value.get("ruleSet")),
        schema_type=str(value.get("schemaType") or "AVRO"),
    )
    return StoredVersion(subject, version, int(value["id"]), content, content.guid, bool(value.get("deleted", False)))


def canonical_json(value: object) -> str:
    """JSON with sorted names; empty for nothing."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")) if value else ""


def _hashed(metadata: Mapping[str, Any], parts: tuple[str, ...]) -> list[bytes]:
    """Every name and text of the parts, in order."""
    pieces: list[bytes] = []
    for part in parts:
        value = metadata.get(part) or {}
        for name in sorted(value):
            pieces.append(name.encode())
            if isinstance(value, Mapping):
                inside = value[name]
                pieces += [str(text).encode() for text in (sorted(inside) if isinstance(inside, list) else [inside])]
    return pieces
