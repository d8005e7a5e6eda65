"""Deleting versions, subjects and contexts: first softly, then for good.

A soft delete hides a version; its id still finds the schema, so messages can be read. Only what was deleted softly can be deleted for good,
and nothing that others refer to. With its last version a subject loses its config and mode. After a permanent delete the writer's claim is
written again (`state`), because it carries the highest ids.
"""

from millstream.registry.errors import (
    OperationNotPermitted,
    SubjectNotFound,
    SubjectNotSoftDeleted,
    SubjectSoftDeleted,
    VersionNotFound,
    VersionNotSoftDeleted,
    VersionSoftDeleted,
)
from millstream.registry.model.records import Key, LogRecord, StoredVersion
from millstream.registry.model.registration import LATEST
from millstream.registry.model.settings import Decision, mode_in_scope, reference_exists
from millstream.registry.model.state import RegistryState, config_record, mode_record, tombstone
from millstream.registry.model.subjects import context_of, parse_subject


def decide_version_deletion(state: RegistryState, subject: str, number: int, *, permanent: bool) -> Decision:
    """Delete one version; the answer is its number."""
    stored = _version_to_delete(state, subject, number, permanent=permanent)
    _check_mode(state, subject)
    if state.referrers(subject, stored.version, include_deleted=permanent):
        raise reference_exists(stored)
    if not permanent:
        deleted = StoredVersion(subject, stored.version, stored.schema_id, stored.content, stored.guid, is_deleted=True)
        return Decision((deleted.record(),), stored.version)
    if not stored.is_deleted:
        raise VersionNotSoftDeleted(f"Subject '{subject}' Version {stored.version} was not deleted first before being permanently deleted")
    is_last = len(state.subjects[subject]) == 1
    return Decision((tombstone(stored), *(_settings_removal(state, subject) if is_last else ())), stored.version)


def decide_subject_deletion(state: RegistryState, subject: str, *, permanent: bool) -> Decision:
    """Delete all versions of a subject; the answer is their numbers."""
    if not state.has_subjects(subject, include_deleted=True):
        raise SubjectNotFound(f"Subject '{subject}' not found.")
    versions = state.versions(subject, include_deleted=permanent)
    if not versions:
        raise SubjectSoftDeleted(f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")
    _check_mode(state, subject)
    for stored in versions:
        if any(one.subject != subject for one in state.referrers(subject, stored.version, include_deleted=permanent)):
            raise reference_exists(stored)
        if permanent and not stored.is_deleted:
            raise SubjectNotSoftDeleted(f"Subject '{subject}' was not deleted first before being permanently deleted")
    answer = [stored.version for stored in versions]
    if not permanent:
        return Decision((LogRecord(Key("DELETE_SUBJECT", subject), {"subject": subject, "version": answer[-1]}),), answer)
    # The latest first: versions may refer to earlier ones of their own subject.
    return Decision((*(tombstone(stored) for stored in reversed(versions)), *_settings_removal(state, subject)), answer)


def decide_context_deletion(state: RegistryState, name: str) -> Decision:
    """Forget an empty context; the answer is nothing."""
    context = parse_subject(name if name.startswith(":") else f":{name}:").context
    if state.has_subjects(f":{context}:", include_deleted=True):
        raise OperationNotPermitted(f"The specified context '{context}' is not empty.", code=42211)
    return Decision((LogRecord(Key("CONTEXT", context=context), None),), None)


def _version_to_delete(state: RegistryState, subject: str, number: int, *, permanent: bool) -> StoredVersion:
    if number == LATEST:
        # The latest that is not deleted; for good, the latest there is.
        versions = state.versions(subject) or state.versions(subject, include_deleted=True)
        stored = versions[-1] if versions else None
    else:
        stored = state.version(subject, number)
    if stored is None:
        if not state.has_subjects(subject, include_deleted=True):
            raise SubjectNotFound(f"Subject '{subject}' not found.")
        raise VersionNotFound(f"Version {number} not found.")
    if stored.is_deleted and not permanent:
        raise VersionSoftDeleted(f"Subject '{subject}' Version {stored.version} was soft deleted. Set permanent=true to delete permanently")
    return stored


def _settings_removal(state: RegistryState, subject: str) -> list[LogRecord]:
    records = [mode_record(subject, None)] if subject in state.modes else []
    return [*records, config_record(subject, None)] if subject in state.configs else records


def _check_mode(state: RegistryState, subject: str) -> None:
    if mode_in_scope(state, subject).is_read_only:
        raise OperationNotPermitted(f"Subject {subject} in context {context_of(subject)} is in read-only mode")
