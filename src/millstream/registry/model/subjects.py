"""Names of subjects: `clicks-value` in the default context, `:.staging:clicks-value` in the context `.staging`.

Ids are counted per context, so the same id may mean different schemas in two of them. `:.staging:` alone names the context itself (for
config and mode), `:.__GLOBAL:` all contexts. A reference without a context is looked for in the context of the schema that refers.
"""

from typing import Final, NamedTuple

from millstream.registry.errors import InvalidSubject

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ".__GLOBAL"
EVERY_CONTEXT: Final = ":*:"
RESERVED: Final = ("__GLOBAL", "__EMPTY")
MAX_SUBJECT_LENGTH: Final = 1_000


class Subject(NamedTuple):
    """A subject in its context; `str()` is the form in which it is stored and shown."""

    context: str
    name: str

    def __str__(self) -> str:
        return context_prefix(self.context) + self.name


def parse_subject(text: str) -> Subject:
    """Context and name of a subject as it is written in a request."""
    if not text.startswith(":."):
        return Subject(DEFAULT_CONTEXT, text)
    context, _, name = text[1:].partition(":")
    return Subject(context, name)


def normalized(text: str) -> str:
    """The one way to write a subject: without the default context."""
    return str(parse_subject(text)) if text.startswith(":.") else text


def context_of(subject: str) -> str:
    """The context of a subject."""
    return parse_subject(subject).context


def context_prefix(context: str) -> str:
    """What stands before the names of a context's subjects."""
    return "" if context == DEFAULT_CONTEXT else f":{context}:"


def qualified(subject: str, parent: str) -> str:
    """The subject that a schema of `parent` means by `subject`."""
    named, context = parse_subject(subject), context_of(parent)
    return str(Subject(context, named.name)) if named.context == DEFAULT_CONTEXT else str(named)


def check_subject(text: str, *, is_for_settings: bool = False) -> None:
    """Raise unless a schema can be registered under this name, or, for settings, config and mode be set."""
    subject = parse_subject(text)
    is_fine = (
        len(text) <= MAX_SUBJECT_LENGTH
        and not any(ord(character) < 32 or 127 <= ord(character) < 160 or 0xD800 <= ord(character) < 0xE000 for character in text)
        and subject.name not in RESERVED
        and (is_for_settings or (subject.name not in ("", "*") and subject.context != GLOBAL_CONTEXT))
        and ":" not in subject.context
    )
    if not is_fine:
        raise InvalidSubject(f"The specified subject '{text[:MAX_SUBJECT_LENGTH]}' is not a valid subject.")
