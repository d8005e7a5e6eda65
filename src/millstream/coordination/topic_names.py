"""Which names a topic may have, and which are the broker's own. Kafka's rules: a name becomes a directory, and part of a metric's name."""

import re
from collections.abc import Collection, Iterable
from typing import Final

from millstream.errors import InvalidTopic

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SCHEMAS_TOPIC: Final = "_schemas"
"""Where the schema registry keeps its schemas: to a broker a topic like any other, but one that the cluster lives by."""
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})
MAX_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: str) -> None:
    """Raise InvalidTopic, saying why, unless `name` may be a topic's."""
    if not name:
        raise InvalidTopic("the topic name is empty")
    if name in (".", ".."):
        raise InvalidTopic(f"a topic cannot be called {name!r}")
    if len(name) > MAX_LENGTH:
        raise InvalidTopic(f"the topic name has {len(name)} characters, at most {MAX_LENGTH} are allowed")
    if not _LEGAL.fullmatch(name):
        raise InvalidTopic(f"topic name {name[:80]!r}: only ASCII letters, digits, '.', '_' and '-' are allowed")


def check_collision(name: str, existing: Collection[str]) -> None:
    """Raise InvalidTopic if `name` differs from another topic only by '.' against '_', which are the same to metrics."""
    for other in _spellings(name, existing):
        if other != name and other in existing:
            raise InvalidTopic(f"topic {name!r} collides with the existing topic {other!r}: '.' and '_' count as the same character")


def _spellings(name: str, existing: Collection[str]) -> Iterable[str]:
    """All that count as the same name, or, where a name has very many, those of them that exist.

    Most names have one or two of these characters, and are looked up in all their spellings sooner than thousands of topics are compared.
    """
    parts = re.split(r"[._]", name)
    if 2 ** (len(parts) - 1) > max(len(existing), 2):
        flattened = name.replace(".", "_")
        return [other for other in existing if other.replace(".", "_") == flattened]
    spellings = parts[:1]
    for part in parts[1:]:
        spellings = [f"{spelling}{character}{part}" for spelling in spellings for character in "._"]
    return spellings
