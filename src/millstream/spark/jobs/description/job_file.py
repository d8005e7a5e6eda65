"""A job as a TOML file, read and checked before Spark is started.

The sections are the fields of `WindowsJob` or `JoinJob`, with `-` for `_`. What is misspelt, missing or of another type is one sentence
with the file, the line, the section and the name. A whole file:

    name = "views-per-page"
    brokers = "127.0.0.1:9092"
    checkpoint = "checkpoints/views-per-page"

    [input]
    topic = "page-views"
    schema = "page STRING, user STRING, duration_ms BIGINT"

    [window]
    size = "10 minutes"
    by = ["page"]

    [measures]
    views = "count"
    users = "distinct(user)"

    [output]
    topic = "views-per-page"
"""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from millstream.errors import UsageError
from millstream.spark.jobs.description.job_settings import Job
from millstream.spark.jobs.description.join_job import JoinJob
from millstream.spark.jobs.description.setting_line import line_of
from millstream.spark.jobs.description.windows_job import WindowsJob
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.running.suggestion import did_you_mean

AnyJob = TypeVar("AnyJob", bound=Job | LoadSettings)
_NOT_IN_A_FILE: Final = frozenset({"complete_from_ms", "added"})
_WORDS: Final = {str: "a text in quotes", int: "a whole number", bool: "true or false", tuple: "a list of texts", dict: "a table of texts"}


def read_job(path: Path) -> WindowsJob | JoinJob:
    """The job that a file describes, of the kind that its sections show."""
    text, document = _load(path)
    if "join" in document or "left" in document:
        return _in_file(path, JoinJob, text, document)
    return _in_file(path, WindowsJob, text, document)


def read_job_of(kind: type[AnyJob], path: Path) -> AnyJob:
    """The job that a file describes, which has to be of this kind."""
    return _in_file(path, kind, *_load(path))


def _load(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no TOML: it is not text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is no TOML: {error}") from None


def _in_file(path: Path, kind: type[AnyJob], text: str, document: Mapping[str, Any]) -> AnyJob:
    try:
        job: AnyJob = _build(kind, document, "")
    except UsageError as error:
        line = line_of(text, str(error))
        raise UsageError(f"{path}{'' if line is None else f', line {line}'}: {error}") from None
    return job


def _build(kind: type[Any], given: Mapping[str, Any], section: str) -> Any:
    """A dataclass of the values of one section."""
    types = get_type_hints(kind)
    known = {field.name.replace("_", "-"): field for field in fields(kind) if field.name not in _NOT_IN_A_FILE}
    arguments = {}
    for name, value in given.items():
        field = known.get(name.replace("_", "-"))
        if field is None:
            raise UsageError(f"{_unknown(name, value, section)}.{did_you_mean(name, known)} There are: {', '.join(known)}")
        arguments[field.name] = _convert(types[field.name], value, f"{section}.{name}" if section else name)
    for name, field in known.items():
        if field.name not in arguments and field.default is MISSING and field.default_factory is MISSING:
            raise UsageError(_missing(types[field.name], name, section))
    try:
        return kind(**arguments)
    except UsageError as error:
        raise UsageError(f"[{section}] {error}" if section else str(error)) from None


def _convert(wanted: Any, value: Any, place: str) -> Any:
    """The value as a field of this type takes it."""
    for option in get_args(wanted) if get_origin(wanted) in {Union, UnionType} else (wanted,):
        if is_dataclass(option):
            if not isinstance(value, dict):
                raise UsageError(f"{place}: it is a section: write [{place}], and its settings below it")
            return _build(option, value, place)  # type: ignore[arg-type]  # a class, not an instance
        if _fits(option, value):
            return tuple(value) if isinstance(value, list) else value
    raise UsageError(f"{place}: {value!r} is not {_expected(wanted)}")


def _fits(wanted: Any, value: Any) -> bool:
    kind = _plain(wanted)
    if kind is tuple:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if kind is dict:
        return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _plain(wanted: Any) -> type:
    """The type that TOML has for this: words are texts, mappings tables."""
    origin = get_origin(wanted)
    if origin is None:
        return wanted if wanted in _WORDS else str
    return tuple if origin is tuple else dict if _is_mapping(origin) else str


def _is_mapping(origin: Any) -> bool:
    """Whether a generic type is a mapping; `Literal` is no class at all."""
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _expected(wanted: Any) -> str:
    options = get_args(wanted) if get_origin(wanted) in {Union, UnionType} else (wanted,)
    return " or ".join(dict.fromkeys(_WORDS[_plain(option)] for option in options))


def _unknown(name: str, value: Any, section: str) -> str:
    if isinstance(value, dict):
        return f"there is no section [{section}.{name}]" if section else f"there is no section [{name}]"
    return f"[{section}] has no setting {name!r}" if section else f"a job has no setting {name!r}"


def _missing(wanted: Any, name: str, section: str) -> str:
    if is_dataclass(wanted) or _plain(wanted) is dict:
        return f"the section [{name}] is missing"
    where = f"[{section}] {name}" if section else name
    return f"{where}: it is missing"
