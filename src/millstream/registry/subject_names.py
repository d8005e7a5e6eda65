"""Under which subject a schema is registered: the three ways that Confluent's clients know.

topic_name           clicks-value            one schema per topic, which evolves
record_name          shop.Click              one per record type, in whatever topic
topic_record_name    clicks-shop.Click       one per record type and topic
"""

from collections.abc import Callable

from millstream.errors import UsageError

SubjectName = Callable[[str | None, str | None, bool], str]
"""From the topic, the full name of the record (None if the schema is none) and whether it is the key."""


def topic_name(topic: str | None, record: str | None, is_key: bool) -> str:
    """`TOPIC-key` or `TOPIC-value`."""
    return f"{_needed(topic, 'topic')}-{'key' if is_key else 'value'}"


def record_name(topic: str | None, record: str | None, is_key: bool) -> str:
    """The full name of the record."""
    return _needed(record, "record")


def topic_record_name(topic: str | None, record: str | None, is_key: bool) -> str:
    """`TOPIC-RECORD`."""
    return f"{_needed(topic, 'topic')}-{_needed(record, 'record')}"


def _needed(name: str | None, what: str) -> str:
    if name is None:
        reason = "serialise with the name of the topic" if what == "topic" else "its schema is no record; use topic_name"
        raise UsageError(f"The subject needs the name of the {what}: {reason}.")
    return name
