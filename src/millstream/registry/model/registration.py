"""Registering schemas, looking them up, and comparing them with the versions that are there: decisions, without waiting.

A schema is brought into the form in which it is stored (`canonical`), and found by it. The same content has one id per context, whatever
subjects it is registered under; a version counts on from the highest that the subject ever had and still has a record of. A schema that
was deleted and is registered again gets its id back and a new version.

Orders of checks, as in Confluent's registry: a schema that is there is answered whatever the mode; then the mode; then whether the schema
is one; then compatibility.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from millstream.avro.levels import Earlier, Level, compatibility_messages
from millstream.avro.parser import ParsedSchema
from millstream.avro.text import registered_text, resolved_text
from millstream.registry.errors import IdDoesNotMatch, IncompatibleSchema, InvalidRequest, InvalidSchema, OperationNotPermitted
from millstream.registry.model.metadata import property_of, reserved_messages, with_configured_metadata
from millstream.registry.model.records import Content, Key, LogRecord, Reference, StoredVersion, canonical_json, references_of
from millstream.registry.model.resolution import SchemaReader
from millstream.registry.model.settings import Decision, Mode, config_in_scope, level_in_scope, mode_in_scope
from millstream.registry.model.state import RegistryState, tombstone
from millstream.registry.model.subjects import DEFAULT_CONTEXT, check_subject, context_of, qualified

LATEST: Final = -1
MAX_REFERENCES: Final = 100
NO_ID: Final = -1


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """A schema as a request brings it; id and version only where schemas are imported."""

    content: Content
    schema_id: int = NO_ID
    version: int = 0


def read_request(document: Mapping[str, Any]) -> SchemaRequest:
    """The schema in the body of a request."""
    text = document.get("schema")
    if text is not None and not isinstance(text, str):
        raise InvalidRequest("The schema has to be a JSON text, with its quotes escaped.")
    if text is None or not text.strip():
        raise InvalidSchema("Empty schema: the request has no text under 'schema'.")
    kind = document.get("schemaType") or "AVRO"
    if kind != "AVRO":
        raise InvalidSchema(f"Invalid schema type {str(kind)[:40]!r}: this registry knows AVRO alone.")
    try:
        references = references_of(document)
        schema_id, version = (int(NO_ID if document.get("id") is None else document["id"]), int(document.get("version") or 0))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"A reference needs name, subject and version, an id and a version are numbers: {error}.") from error
    if len(references) > MAX_REFERENCES:
        raise InvalidSchema(f"A schema may refer to {MAX_REFERENCES} others, and this one has {len(references)} references.")
    if not -(2**31) <= schema_id < 2**31 or not -1 <= version < 2**31:
        raise InvalidRequest("An id and a version are numbers from 1 to 2^31-1.")
    content = Content(text, references, canonical_json(document.get("metadata")), canonical_json(document.get("ruleSet")))
    return SchemaRequest(content, schema_id, version)


class Registrar:
    """Decides about schemas of one state."""

    def __init__(self, state: RegistryState) -> None:
        self._state = state
        self.reader = SchemaReader(state)

    def canonical(self, subject: str, content: Content, *, normalize: bool, is_strict: bool) -> tuple[Content, ParsedSchema]:
        """The content in the form in which it is stored, and the schema itself."""
        content = replace(content, references=self._numbered(subject, content.references))
        normalize = normalize or config_in_scope(self._state, subject).get("normalize") is True
        parsed = self.reader.parse(content, subject, is_strict=is_strict)
        references = content.references
        if normalize:
            references = tuple(sorted(set(references), key=lambda one: (one.name, one.subject, one.version)))
        return replace(content, text=registered_text(parsed, is_normalized=normalize), references=references), parsed

    def find(self, subject: str, content: Content, parsed: ParsedSchema, *, include_deleted: bool) -> StoredVersion | None:
        """The version of a subject that holds this content, the latest if there are several."""
        versions = self._state.versions(subject, include_deleted=include_deleted)
        for stored in reversed(versions):
            if stored.content == content:
                return stored
        if content.references:
            return None
        # A schema may be sent with what it refers to written out.
        text = resolved_text(parsed)
        for stored in reversed(versions):
            if not stored.content.references or replace(stored.content, text=text, references=()) != replace(content, text=text):
                continue
            if resolved_text(self.reader.parse(stored.content, stored.subject)) == text:
                return stored
        return None

    def look_up(self, subject: str, request: SchemaRequest, *, normalize: bool, include_deleted: bool) -> StoredVersion | None:
        """The version under which a schema is registered, as it is or with the metadata that its config would give it."""
        for wanted in dict.fromkeys([request.content, self._with_metadata(subject, request.content)]):
            content, parsed = self.canonical(subject, wanted, normalize=normalize, is_strict=False)
            found = self.find(subject, content, parsed, include_deleted=include_deleted)
            if found is not None:
                return found
        return None

    def messages(self, subject: str, request: SchemaRequest, earlier: list[StoredVersion], *, normalize: bool) -> list[str]:
        """Why a schema may not follow some versions, at the subject's level; empty if it may."""
        content, parsed = self.canonical(subject, request.content, normalize=normalize, is_strict=True)
        return self._compatibility(subject, content, parsed, earlier)

    def existing(self, subject: str, request: SchemaRequest, *, normalize: bool) -> StoredVersion | None:
        """The version that a registration would answer without writing anything."""
        wanted = self._with_metadata(subject, request.content)
        content, parsed = self.canonical(subject, wanted, normalize=normalize, is_strict=False)
        found = self.find(subject, content, parsed, include_deleted=False)
        return found if found is not None and _is_same(found, request) else None

    def decide_registration(self, subject: str, request: SchemaRequest, *, normalize: bool) -> Decision:
        """Register a schema, or answer that it is there."""
        check_subject(subject)
        mode = mode_in_scope(self._state, subject)
        is_import = request.schema_id > NO_ID
        found = self.existing(subject, request, normalize=normalize)
        if found is not None:
            return Decision((), registration_answer(found))
        _check_mode(mode, subject, is_import=is_import)
        wanted = self._with_metadata(subject, request.content)
        content, parsed = self.canonical(subject, wanted, normalize=normalize, is_strict=not is_import)
        if mode is not Mode.IMPORT:
            messages = self._compatibility(subject, content, parsed, self._state.versions(subject))
            if messages:
                summary = f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
                raise IncompatibleSchema(f"{summary}, details: [{', '.join(messages)}]")
        stored = self._new_version(subject, content, request, is_import=mode is Mode.IMPORT)
        return Decision((*self._context_record(subject), stored.record(), *self._replaced(stored)), registration_answer(stored))

    def _new_version(self, subject: str, content: Content, request: SchemaRequest, *, is_import: bool) -> StoredVersion:
        state, context, guid = self._state, context_of(subject), content.guid
        version = max(state.subjects.get(subject, {}), default=0) + 1
        if request.version > 0:
            if request.version != version and not is_import:
                raise InvalidSchema(f"Version is not one more than previous version: it has to be {version}, not {request.version}.")
            version = request.version
        schema_id = request.schema_id if request.schema_id > NO_ID else state.id_of(context, guid)
        if schema_id is None:
            schema_id = state.next_id(context)
        for other in state.versions_with_id(context, schema_id):
            if other.content != content:
                raise IdDoesNotMatch(
                    f"Overwrite new schema with id {schema_id} is not permitted: {other.subject} has it for another schema."
                )
        return StoredVersion(subject, version, schema_id, content, guid)

    def _replaced(self, new: StoredVersion) -> list[LogRecord]:
        """Deleted versions with the same id go for good, unless something refers to them: one id is one version of a subject."""
        return [
            tombstone(old)
            for old in self._state.versions(new.subject, include_deleted=True)
            if old.is_deleted
            and old.schema_id == new.schema_id
            and old.version < new.version
            and not self._state.referrers(old.subject, old.version, include_deleted=True)
        ]

    def _context_record(self, subject: str) -> list[LogRecord]:
        context = context_of(subject)
        if context == DEFAULT_CONTEXT or context in self._state.contexts:
            return []
        return [LogRecord(Key("CONTEXT", context=context), {"tenant": "default", "context": context})]

    def _compatibility(self, subject: str, content: Content, parsed: ParsedSchema, earlier: list[StoredVersion]) -> list[str]:
        level, config = level_in_scope(self._state, subject), config_in_scope(self._state, subject)
        messages = []
        if config.get("validateFields") is True:
            messages = reserved_messages(content, parsed, earlier[-1].content if earlier else None)
            messages += [f"{{validateFields: 'true', compatibility: '{level}'}}"] if messages else []
        group = config.get("compatibilityGroup")
        if group is not None:
            earlier = [one for one in earlier if property_of(one.content, group) == property_of(content, group)]
        asked = earlier if level.is_transitive else earlier[-1:]
        if level is Level.NONE or not asked:
            return messages
        compared = [Earlier(one.version, self.reader.parse(one.content, one.subject).root, one.content.text) for one in asked]
        return messages + compatibility_messages(level, parsed.root, compared)

    def _with_metadata(self, subject: str, content: Content) -> Content:
        """The content with what the config adds to its metadata; imported schemas stay as they are."""
        if mode_in_scope(self._state, subject) is Mode.IMPORT:
            return content
        previous = self._state.versions(subject)[-1:]
        return with_configured_metadata(content, previous[0].content if previous else None, config_in_scope(self._state, subject))

    def _numbered(self, subject: str, references: tuple[Reference, ...]) -> tuple[Reference, ...]:
        """References to the latest version (-1) as references to the version that is the latest now."""
        return tuple(
            replace(one, version=max((stored.version for stored in self._state.versions(qualified(one.subject, subject))), default=LATEST))
            if one.version == LATEST
            else one
            for one in references
        )


def registration_answer(stored: StoredVersion) -> dict[str, Any]:
    """What is answered to who registers."""
    answer: dict[str, Any] = {"id": stored.schema_id, "version": stored.version, "guid": stored.guid, "schemaType": "AVRO"}
    return {**answer, **stored.content.document(), "schema": stored.content.text}


def _is_same(found: StoredVersion, request: SchemaRequest) -> bool:
    """Whether what is registered is what is asked for, id and version included, where they are given."""
    return request.schema_id in (NO_ID, found.schema_id) and request.version in (0, LATEST, found.version)


def _check_mode(mode: Mode, subject: str, *, is_import: bool) -> None:
    where = f"Subject {subject} in context {context_of(subject)}"
    if mode.is_read_only:
        raise OperationNotPermitted(f"{where} is in read-only mode")
    if is_import and mode is not Mode.IMPORT:
        raise OperationNotPermitted(f"{where} is not in import mode")
    if not is_import and mode is not Mode.READWRITE:
        raise OperationNotPermitted(f"{where} is not in read-write mode")
