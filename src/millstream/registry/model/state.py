"""What a registry knows: the state that the records of `_schemas` add up to. `apply` is the only way in which it changes.

Every instance applies the same records in the same order and so comes to the same state. Two rules make the order of the log decide when
two instances write at once:

- **The term.** Who wants to write appends a claim with a new term; records carry the term of their writer. After a claim, records of
  another term are ignored: whatever a deposed writer still has under way was decided on a state that is no longer true. Records without a
  term (another registry's, a tool's) are taken.
- **The id.** An id that stands for one schema never comes to stand for another as long as a version has it: a record that says otherwise
  is ignored.

A key whose last record was ignored is `disputed`: compaction would keep that record and lose the one before it. The next writer puts the
true value of the key into the log again (`corrections`).

Ids are never used twice, not even those of schemas that were deleted for good and compacted away: claims carry the highest ids.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from millstream.registry.model.records import CLAIM_KEY, Key, LogRecord, StoredVersion, config_key, mode_key, schema_key, stored_version
from millstream.registry.model.subjects import DEFAULT_CONTEXT, context_of, normalized, qualified

NO_ID: Final = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """Who writes: a term of its own, the instance, and where it can be reached."""

    term: str
    instance: str
    url: str


@dataclass(slots=True)
class _Context:
    """The schemas of one context by id, and the ids by content."""

    highest_id: int = NO_ID
    versions_by_id: dict[int, dict[tuple[str, int], None]] = field(default_factory=dict)
    ids_by_guid: dict[str, int] = field(default_factory=dict)


_NOWHERE: Final = _Context()
"""A context in which nothing is registered."""


class RegistryState:
    """Subjects with their versions, ids, references, configs, modes, contexts, and the last claim."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, StoredVersion]] = {}
        self.configs: dict[str | None, Mapping[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.claim: Claim | None = None
        self.disputed: set[Key] = set()
        self._contexts: dict[str, _Context] = {DEFAULT_CONTEXT: _Context()}
        self._referrers: dict[tuple[str, int], dict[tuple[str, int], None]] = {}

    # -- questions

    @property
    def contexts(self) -> list[str]:
        """The names of the contexts, the default one first."""
        return sorted(self._contexts)

    def versions(self, subject: str, *, include_deleted: bool = False) -> list[StoredVersion]:
        """The versions of a subject, oldest first."""
        listed = self.subjects.get(subject, {})
        return [listed[number] for number in sorted(listed) if include_deleted or not listed[number].is_deleted]

    def version(self, subject: str, number: int) -> StoredVersion | None:
        """One version, deleted or not."""
        return self.subjects.get(subject, {}).get(number)

    def versions_with_id(self, context: str, schema_id: int) -> list[StoredVersion]:
        """Every version, deleted or not, that has this id."""
        places = self._contexts.get(context, _NOWHERE).versions_by_id.get(schema_id, {})
        return [self.subjects[subject][number] for subject, number in places]

    def id_of(self, context: str, guid: str) -> int | None:
        """The id that this content has in a context."""
        return self._contexts.get(context, _NOWHERE).ids_by_guid.get(guid)

    def referrers(self, subject: str, number: int, *, include_deleted: bool) -> list[StoredVersion]:
        """The versions that refer to this one."""
        places = self._referrers.get((subject, number), {})
        found = (self.subjects[name][version] for name, version in places)
        return [one for one in found if include_deleted or not one.is_deleted]

    def next_id(self, context: str) -> int:
        """An id that was never used in this context."""
        return self._contexts.get(context, _NOWHERE).highest_id + 1

    def highest_ids(self) -> dict[str, int]:
        """The highest id of each context, for a claim."""
        return {name: context.highest_id for name, context in self._contexts.items() if context.highest_id}

    def has_subjects(self, prefix: str | None, *, include_deleted: bool) -> bool:
        """Whether there is a subject of this name, or, for a context (`:.c:`, or None for the default one), any in it."""
        return any(True for _ in self.matching_subjects(prefix, include_deleted=include_deleted))

    def matching_subjects(self, subject: str | None, *, include_deleted: bool) -> Iterator[str]:
        """The subject itself, or all of a context."""
        is_context = subject is None or (subject.startswith(":.") and subject.endswith(":"))
        names = (
            [name for name in self.subjects if context_of(name) == context_of(subject or "")]
            if is_context
            else [name for name in (subject,) if name in self.subjects]
        )
        for name in names:
            if any(include_deleted or not one.is_deleted for one in self.subjects[name].values()):
                yield name

    def corrections(self) -> list[LogRecord]:
        """The true values of the keys whose last record was ignored."""
        return [LogRecord(key, self._value_of(key)) for key in sorted(self.disputed, key=repr)]

    # -- the only changes

    def apply(self, record: LogRecord, *, term: str | None = None) -> bool:
        """Take the next record of the log; False if it is ignored. Raises KeyError, TypeError or ValueError if it makes no sense."""
        key, value = record.key, record.value
        if key.type == CLAIM_KEY.type:
            self._apply_claim(value)
            return True
        is_stale = term is not None and self.claim is not None and term != self.claim.term
        if is_stale or not (self._apply_version(key, value) if key.type == "SCHEMA" else self._apply_other(key, value)):
            self.disputed.add(key)
            return False
        self.disputed.discard(key)
        return True

    def _apply_other(self, key: Key, value: Mapping[str, Any] | None) -> bool:
        if key.type == "CONFIG":
            _put(self.configs, key.subject, None if value is None else {name: one for name, one in value.items() if name != "subject"})
        elif key.type == "MODE":
            _put(self.modes, key.subject, None if value is None else str(value["mode"]))
        elif key.type == "CONTEXT":
            self._apply_context(key.context, exists=value is not None)
        elif key.type == "DELETE_SUBJECT" and value is not None:
            for stored in self.versions(normalized(str(value["subject"]))):
                if stored.version <= int(value["version"]):
                    self._put_version(_deleted(stored))
        elif key.type == "CLEAR_SUBJECT" and value is not None:
            for name in list(self.matching_subjects(key.subject, include_deleted=True)):
                for stored in self.versions(name, include_deleted=True):
                    self._remove_version(stored)
        return True

    def _apply_claim(self, value: Mapping[str, Any] | None) -> None:
        if not value or "term" not in value:
            # Confluent's registry writes NOOPs of its own.
            return
        self.claim = Claim(str(value["term"]), str(value["instance"]), str(value["url"]))
        for name, highest in dict(value.get("highestIds") or {}).items():
            context = self._context(name)
            context.highest_id = max(context.highest_id, int(highest))

    def _apply_version(self, key: Key, value: Mapping[str, Any] | None) -> bool:
        subject = normalized(key.subject or "")
        new = None if value is None else stored_version(value, subject=subject, version=key.version)
        if new is not None and self._takes_an_id(new):
            return False
        old = self.version(subject, key.version)
        if old is not None:
            self._remove_version(old)
        if new is not None:
            self._put_version(new)
        return True

    def _apply_context(self, name: str, *, exists: bool) -> None:
        if exists:
            self._context(name)
        elif name != DEFAULT_CONTEXT and not self._contexts.get(name, _NOWHERE).versions_by_id:
            self._contexts.pop(name, None)

    def _put_version(self, stored: StoredVersion) -> None:
        place = (stored.subject, stored.version)
        self.subjects.setdefault(stored.subject, {})[stored.version] = stored
        context = self._context(context_of(stored.subject))
        context.highest_id = max(context.highest_id, stored.schema_id)
        context.versions_by_id.setdefault(stored.schema_id, {})[place] = None
        context.ids_by_guid.setdefault(stored.guid, stored.schema_id)
        for reference in stored.content.references:
            target = (qualified(reference.subject, stored.subject), reference.version)
            self._referrers.setdefault(target, {})[place] = None

    def _remove_version(self, stored: StoredVersion) -> None:
        place = (stored.subject, stored.version)
        del self.subjects[stored.subject][stored.version]
        if not self.subjects[stored.subject]:
            del self.subjects[stored.subject]
        context = self._context(context_of(stored.subject))
        places = context.versions_by_id[stored.schema_id]
        del places[place]
        if not places:
            del context.versions_by_id[stored.schema_id]
            if context.ids_by_guid.get(stored.guid) == stored.schema_id:
                del context.ids_by_guid[stored.guid]
        for reference in stored.content.references:
            self._referrers.get((qualified(reference.subject, stored.subject), reference.version), {}).pop(place, None)

    def _takes_an_id(self, new: StoredVersion) -> bool:
        """Whether the id belongs to another schema, whose versions are not just this one."""
        return any(
            one.content.text != new.content.text and (one.subject, one.version) != (new.subject, new.version)
            for one in self.versions_with_id(context_of(new.subject), new.schema_id)
        )

    def _value_of(self, key: Key) -> Mapping[str, Any] | None:
        """The value that a key truly has, as a record would say it."""
        if key.type == "SCHEMA":
            stored = self.version(normalized(key.subject or ""), key.version)
            return None if stored is None else stored.record().value
        if key.type == "CONFIG":
            config = self.configs.get(key.subject)
            return None if config is None else config_record(key.subject, config).value
        if key.type == "MODE":
            mode = self.modes.get(key.subject)
            return None if mode is None else mode_record(key.subject, mode).value
        if key.type == "CONTEXT" and key.context in self._contexts:
            return {"tenant": "default", "context": key.context}
        return None

    def _context(self, name: str) -> _Context:
        """The context, which is there from now on."""
        found = self._contexts.get(name)
        if found is None:
            found = self._contexts[name] = _Context()
        return found


def claim_record(claim: Claim, highest_ids: Mapping[str, int]) -> LogRecord:
    """The record by which an instance claims to write."""
    value = {"term": claim.term, "instance": claim.instance, "url": claim.url, "highestIds": dict(highest_ids)}
    return LogRecord(CLAIM_KEY, value)


def config_record(subject: str | None, config: Mapping[str, Any] | None) -> LogRecord:
    """The record that sets (or with None removes) a config."""
    named = {} if subject is None else {"subject": subject}
    return LogRecord(config_key(subject), None if config is None else {**named, **config})


def mode_record(subject: str | None, mode: str | None) -> LogRecord:
    """The record that sets (or with None removes) a mode."""
    named = {} if subject is None else {"subject": subject}
    return LogRecord(mode_key(subject), None if mode is None else {**named, "mode": mode})


def tombstone(stored: StoredVersion) -> LogRecord:
    """The record that deletes a version for good."""
    return LogRecord(schema_key(stored.subject, stored.version), None)


def _deleted(stored: StoredVersion) -> StoredVersion:
    return StoredVersion(stored.subject, stored.version, stored.schema_id, stored.content, stored.guid, is_deleted=True)


def _put(table: dict[str | None, Any], name: str | None, value: object) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
