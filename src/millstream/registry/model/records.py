"""The records of the topic `_schemas`, byte for byte as Confluent's registry writes them, so that either can read the other's topic.

    key                                                                   value
    {"keytype":"SCHEMA","subject":"s","version":1,"magic":1}              {"subject":"s","version":1,"id":1,"schema":"...","deleted":false}
                                                                          null: deleted for good
    {"keytype":"DELETE_SUBJECT","subject":"s","magic":0}                  {"subject":"s","version":3}: all versions up to 3 are deleted
    {"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}                   {"subject":"s"}: forget what is left of it
    {"keytype":"CONFIG","subject":"s","magic":0}   (global: no subject)   {"subject":"s","compatibilityLevel":"FULL"}; null: as before
    {"keytype":"MODE","subject":"s","magic":0}     (global: no subject)   {"subject":"s","mode":"IMPORT"}; null: as before
    {"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}     {"tenant":"default","context":".c"}
    {"keytype":"NOOP","magic":0}                                          a `Claim` (see `state`); Confluent's registry ignores the value

Records that a Millstream registry writes also have a header with the term of its writer; Confluent's registry ignores headers.

The GUID of a schema is the MD5 of its text and, if there are any, references, metadata and rules, as Confluent's registry computes it: the
same schema has the same GUID in every registry and every context. Metadata and rules are kept and answered, and make two schemas different;
nothing is done with them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

TENANT: Final = "default"
TERM_HEADER: Final = "millstream-term"

Json = Any


@dataclass(frozen=True, slots=True)
class Key:
    """A key: its type, and the subject (None: global, or there is none), the version, the context where there are such."""

    type: str
    subject: str | None = None
    version: int = 0
    context: str = ""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record; a value of None deletes."""

    key: Key
    value: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema that a schema uses: the name it is used by, and where it is registered."""

    name: str
    subject: str
    version: int


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

    def document(self) -> dict[str, Json]:
        """The content as it is answered and stored, beside what else is."""
        document: dict[str, Json] = {}
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
        value: dict[str, Json] = {"subject": self.subject, "version": self.version, "id": self.schema_id}
        if self.content.schema_type != "AVRO":
            value["schemaType"] = self.content.schema_type
        value |= {**self.content.document(), "schema": self.content.text, "deleted": self.is_deleted}
        return LogRecord(schema_key(self.subject, self.version), value)


class UnreadableRecord(Exception):
    """A record that no registry can have written."""


def schema_key(subject: str, version: int) -> Key:
    """The key of a version."""
    return Key("SCHEMA", subject, version)


def config_key(subject: str | None) -> Key:
    """The key of a config."""
    return Key("CONFIG", subject)


def mode_key(subject: str | None) -> Key:
    """The key of a mode."""
    return Key("MODE", subject)


CLAIM_KEY: Final = Key("NOOP")


def encode_key(key: Key) -> bytes:
    """The bytes of a key, in Jackson's order: compaction compares bytes."""
    document: dict[str, Json] = {"keytype": key.type}
    if key.type == "CONTEXT":
        document |= {"tenant": TENANT, "context": key.context}
    if key.subject is not None:
        document["subject"] = key.subject
    if key.type == "SCHEMA":
        document["version"] = key.version
    document["magic"] = 1 if key.type == "SCHEMA" else 0
    return _bytes(document)


def encode_value(value: Mapping[str, Json] | None) -> bytes | None:
    """The bytes of a value."""
    return None if value is None else _bytes(value)


def decode_record(key: bytes | None, value: bytes | None) -> LogRecord:
    """The record that key and value hold; raises UnreadableRecord."""
    try:
        document = json.loads(key or b"null")
        kind = document["keytype"]
        decoded = Key(
            type=_text(kind),
            subject=None if document.get("subject") is None else _text(document["subject"]),
            version=int(document.get("version", 0)),
            context=_text(document.get("context") or ""),
        )
        content = None if value is None else json.loads(value)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableRecord(f"{(key or b'')[:200]!r}: {error}") from error
    if content is not None and not isinstance(content, dict):
        raise UnreadableRecord(f"{(key or b'')[:200]!r}: the value is no object")
    return LogRecord(decoded, content)


def stored_version(value: Mapping[str, Json], *, subject: str, version: int) -> StoredVersion:
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


def references_of(value: Mapping[str, Json]) -> tuple[Reference, ...]:
    """The references in a value or a request; raises KeyError, TypeError or ValueError if they are none."""
    return tuple(Reference(_text(one["name"]), _text(one["subject"]), int(one["version"])) for one in value.get("references") or ())


def references_document(references: tuple[Reference, ...]) -> list[dict[str, Json]]:
    """References as they are stored and answered."""
    return [{"name": one.name, "subject": one.subject, "version": one.version} for one in references]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _bytes(document: Mapping[str, Json]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _hashed(metadata: Mapping[str, Json], parts: tuple[str, ...]) -> list[bytes]:
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
