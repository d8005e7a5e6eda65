"""Versions as JSON documents, in the shapes of Confluent's API."""

from typing import Any

from millstream.avro.text import resolved_text
from millstream.registry.registration import Registrar
from millstream.registry.stored import StoredVersion


def version_document(stored: StoredVersion) -> dict[str, Any]:
    """A version of a subject."""
    document: dict[str, Any] = {"subject": stored.subject, "version": stored.version, "id": stored.schema_id, "guid": stored.guid}
    document |= {"schemaType": stored.content.schema_type, **stored.content.document(), "schema": stored.content.text}
    return {**document, "deleted": True} if stored.is_deleted else document


def schema_document(stored: StoredVersion) -> dict[str, Any]:
    """A schema by its id; the id is not repeated."""
    document = version_document(stored)
    for name in ("id", "deleted"):
        document.pop(name, None)
    return document


def formatted(document: dict[str, Any], stored: StoredVersion, *, form: str, registrar: Registrar) -> dict[str, Any]:
    """The document with its schema in the form that was asked for: `resolved` writes out what it refers to."""
    if form == "resolved":
        document["schema"] = resolved_text(registrar.reader.parse(stored.content, stored.subject))
    return document
