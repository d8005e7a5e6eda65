"""Config and mode: which ones hold for a subject, and decisions to change them.

What is set for a subject wins over what is set for its context, that over what is set for all. The default context's settings are the
"global" ones of the API (`/config`, `/mode`); `:.__GLOBAL:` stands above all contexts.

Of Confluent's config these have an effect here and can be set: `compatibility`, `normalize`, `compatibilityGroup`, `alias`, and those of
`metadata`: `validateFields`, `defaultMetadata`, `overrideMetadata`. The others are refused, instead of being kept without effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from millstream.avro.levels import Level
from millstream.registry.errors import (
    ConfigNotFound,
    InvalidLevel,
    InvalidMode,
    InvalidRequest,
    ModeNotFound,
    OperationNotPermitted,
    ReferenceExists,
    SubjectNotFound,
)
from millstream.registry.model.metadata import MERGED, is_metadata
from millstream.registry.model.records import Key, LogRecord, StoredVersion
from millstream.registry.model.state import RegistryState, config_record, mode_record, tombstone
from millstream.registry.model.subjects import (
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    check_subject,
    context_of,
    context_prefix,
    normalized,
    parse_subject,
)

DEFAULT_LEVEL: Final = Level.BACKWARD
TEXTS: Final = ("alias", "compatibilityGroup")
FLAGS: Final = ("normalize", "validateFields")
KNOWN_CONFIG: Final = ("compatibility", *FLAGS, *TEXTS, *MERGED)

Json = Any


class Mode(StrEnum):
    """What may be done with a subject."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"

    @property
    def is_read_only(self) -> bool:
        """Whether nothing may be written."""
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a command comes to: records to append, in order, and the answer when they are in the log."""

    records: tuple[LogRecord, ...]
    answer: Json


def settings_place(subject: str | None) -> str | None:
    """The subject whose settings are meant; None for the default context, which is the global place."""
    if subject is None or parse_subject(subject) == (DEFAULT_CONTEXT, ""):
        return None
    return normalized(subject)


def config_in_scope(state: RegistryState, subject: str | None) -> dict[str, Json]:
    """The config that holds for a subject."""
    merged: dict[str, Json] = {"compatibilityLevel": str(DEFAULT_LEVEL)}
    for place in reversed(_scopes(subject)):
        if place in state.configs:
            # Metadata is the nearest config's own.
            merged = {**{name: value for name, value in merged.items() if name not in MERGED}, **state.configs[place]}
    return merged


def level_in_scope(state: RegistryState, subject: str) -> Level:
    """The compatibility level that holds for a subject."""
    return Level(config_in_scope(state, subject)["compatibilityLevel"])


def mode_in_scope(state: RegistryState, subject: str | None) -> Mode:
    """The mode that holds for a subject."""
    return Mode(next((state.modes[place] for place in _scopes(subject) if place in state.modes), Mode.READWRITE))


def config_of(state: RegistryState, subject: str | None, *, default_to_global: bool) -> dict[str, Json]:
    """The config of a subject itself, or, if asked for, the one that holds."""
    place = settings_place(subject)
    if default_to_global or place is None:
        return config_in_scope(state, place)
    if place not in state.configs:
        raise ConfigNotFound(f"Subject '{place}' does not have subject-level compatibility configured")
    return dict(state.configs[place])


def mode_of(state: RegistryState, subject: str | None, *, default_to_global: bool) -> str:
    """The mode of a subject itself, or, if asked for, the one that holds."""
    place = settings_place(subject)
    if default_to_global or place is None:
        return str(mode_in_scope(state, place))
    if place not in state.modes:
        raise ModeNotFound(f"Subject '{place}' does not have subject-level mode configured")
    return state.modes[place]


def decide_config(state: RegistryState, subject: str | None, request: Mapping[str, Json]) -> Decision:
    """Change some of a config; what is not named stays, what is null goes."""
    place = settings_place(subject)
    if place is not None:
        check_subject(place, is_for_settings=True)
    config = dict(state.configs.get(place, {}))
    for name, value in request.items():
        stored = "compatibilityLevel" if name == "compatibility" else name
        if value is None:
            config.pop(stored, None)
        elif name == "compatibility":
            config[stored] = str(read_level(value))
        elif _may_be(name, value):
            config[stored] = value
        else:
            raise InvalidRequest(f"The config {name!r} cannot be set to {str(value)[:100]!r} here; known are {', '.join(KNOWN_CONFIG)}.")
    answer = {("compatibility" if name == "compatibilityLevel" else name): value for name, value in config.items()}
    return Decision((config_record(place, config),), answer)


def _may_be(name: str, value: Json) -> bool:
    if name in MERGED:
        return is_metadata(value)
    return (name in FLAGS and isinstance(value, bool)) or (name in TEXTS and isinstance(value, str))


def decide_config_removal(state: RegistryState, subject: str | None) -> Decision:
    """Let the config of the next wider place hold again."""
    place = settings_place(subject)
    if place is not None and place not in state.configs:
        raise SubjectNotFound(f"Subject '{place}' not found.")
    return Decision((config_record(place, None),), dict(state.configs.get(place, {"compatibilityLevel": str(DEFAULT_LEVEL)})))


def decide_mode(state: RegistryState, subject: str | None, request: Mapping[str, Json], *, force: bool) -> Decision:
    """Set a mode. For IMPORT there must be no schemas (or it is forced); deleted ones are forgotten."""
    place = settings_place(subject)
    if place is not None:
        check_subject(place, is_for_settings=True)
    text = request.get("mode")
    if text is None:
        return Decision((mode_record(place, None),), {"mode": None})
    mode = _read_mode(text)
    records: list[LogRecord] = []
    if mode is Mode.IMPORT and mode_in_scope(state, place) is not Mode.IMPORT and not force:
        if state.has_subjects(place, include_deleted=False):
            raise OperationNotPermitted("Cannot import since found existing subjects")
        records = _forgetting(state, place)
    return Decision((*records, mode_record(place, str(mode))), {"mode": text})


def decide_mode_removal(state: RegistryState, subject: str | None, *, is_recursive: bool) -> Decision:
    """Let the mode of the next wider place hold again; recursively, for a context, also for its subjects."""
    place = settings_place(subject)
    old = state.modes.get(place)
    if old is None and not is_recursive and place is not None:
        raise SubjectNotFound(f"Subject '{place}' not found.")
    places = [place]
    if is_recursive and (place is None or parse_subject(place).name == ""):
        context = context_of(place or "")
        places += [name for name in state.modes if name is not None and name != place and context_of(name) == context]
    answer = {"mode": old if old is not None or place is not None else str(Mode.READWRITE)}
    return Decision(tuple(mode_record(name, None) for name in places), answer)


def read_level(value: Json) -> Level:
    """The level that a request names, in small or capital letters."""
    try:
        return Level(str(value).upper())
    except ValueError:
        listed = ", ".join(level.lower() for level in Level)
        raise InvalidLevel(f"Invalid compatibility level. Valid values are {listed}, and not {str(value)[:100]!r}.") from None


def reference_exists(stored: StoredVersion) -> ReferenceExists:
    """The refusal to delete what others refer to."""
    place = f"{{magic=1,keytype=SCHEMA,subject={stored.subject},version={stored.version}}}"
    return ReferenceExists(f"One or more references exist to the schema {place}.")


def _forgetting(state: RegistryState, place: str | None) -> list[LogRecord]:
    """Records that remove the deleted versions of a subject or context for good."""
    records = []
    for name in state.matching_subjects(place, include_deleted=True):
        for stored in state.versions(name, include_deleted=True):
            if state.referrers(stored.subject, stored.version, include_deleted=True):
                raise reference_exists(stored)
            records.append(tombstone(stored))
    cleared = {} if place is None else {"subject": place}
    return [*records, LogRecord(Key("CLEAR_SUBJECT", place), cleared)]


def _read_mode(value: Json) -> Mode:
    try:
        return Mode(str(value).upper())
    except ValueError:
        raise InvalidMode(f"Invalid mode. Valid values are {', '.join(Mode)}, and not {str(value)[:100]!r}.") from None


def _scopes(subject: str | None) -> list[str | None]:
    """Where settings are looked for, the nearest first."""
    everywhere = context_prefix(GLOBAL_CONTEXT)
    if subject is None:
        return [None, everywhere]
    context = context_of(subject)
    return [subject, None if context == DEFAULT_CONTEXT else context_prefix(context), everywhere]
