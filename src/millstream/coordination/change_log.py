"""The one watched list of changes: which topics and partitions the controller has written lately.

    /changes   {"last": 7, "changes": [[6, "orders", [0, 3]], [7, "payments", null]]}

Every multi of the controller that writes topics or partitions also writes this znode, so it changes with them and not before. A broker
watches it alone, instead of each of ten thousand partitions. The list is short: who finds the last number that it knows reads what is named
behind it, who does not (it was away, or there was more than the list holds) reads everything again. `null` means the topic itself: it
came, went, or has other options or another number of partitions; the empty name means the lives of brokers (`/brokers/epochs`).
"""

import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple, Self

from millstream.json_object import MAX_INT, JsonObject

MAX_CHANGES: Final = 5_000
"""So many partitions of as many topics can be led anew without everybody reading everything; the writer forgets old ones sooner."""
MAX_BYTES: Final = 300_000
"""About: ZooKeeper takes 1 MB in one transaction, and what was changed is in the same one."""


class Change(NamedTuple):
    """What one write of the controller touched."""

    number: int
    topic: str
    partitions: tuple[int, ...] | None = None
    """None: the topic itself."""

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return 30 + len(self.topic) + 7 * len(self.partitions or ())


class Touched(NamedTuple):
    """What several changes together touched of one topic."""

    is_topic: bool
    """Whether the topic itself was written, and not only partitions that it had before."""
    partitions: frozenset[int] = frozenset()


class ChangeLog(NamedTuple):
    """The list, oldest first; numbers go up by one."""

    last: int = 0
    changes: tuple[Change, ...] = ()

    def with_changes(self, touched: Iterable[tuple[str, tuple[int, ...] | None]]) -> "ChangeLog":
        """The list with further changes; the oldest go when it becomes too long."""
        number, found = self.last, list(self.changes)
        for topic, partitions in touched:
            number += 1
            found.append(Change(number, topic, partitions))
        found = found[-MAX_CHANGES:]
        size, first = sum(change.size for change in found), 0
        while size > MAX_BYTES:
            size -= found[first].size
            first += 1
        return ChangeLog(number, tuple(found[first:]))

    def forgetting(self, number: int, *, keep: int) -> "ChangeLog":
        """The list without what came before the change of that number, except the last ones."""
        first = max(len(self.changes) - keep, 0)
        while first and self.changes[first - 1].number > number:
            first -= 1
        return self if not first else ChangeLog(self.last, self.changes[first:])

    def since(self, number: int) -> Mapping[str, Touched] | None:
        """What was touched after the change of that number, by topic; None if the list does not go back so far."""
        if number == self.last:
            return {}
        if number > self.last or not self.changes or self.changes[0].number > number + 1:
            return None
        topics: set[str] = set()
        partitions: dict[str, set[int]] = {}
        for change in self.changes:
            if change.number > number:
                partitions.setdefault(change.topic, set()).update(change.partitions or ())
                if change.partitions is None:
                    topics.add(change.topic)
        return {topic: Touched(topic in topics, frozenset(numbers)) for topic, numbers in partitions.items()}

    def encode(self) -> bytes:
        """The content of the znode."""
        return json.dumps({"last": self.last, "changes": [list(change) for change in self.changes]}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The list in a znode, none in a new one; ValueError if it makes no sense: then everything has to be read."""
        if not data:
            return cls()
        fields = JsonObject.parse(data)
        last = fields.integer("last", highest=2**80)
        changes = [_decode_change(item) for item in fields.items("changes")]
        if any(later.number != sooner.number + 1 for sooner, later in pairwise(changes)):
            raise ValueError("changes must be numbered one by one")
        if changes and changes[-1].number != last:
            raise ValueError(f"the last change must have the number {last}, and has {changes[-1].number}")
        return cls(last, tuple(changes))


def _decode_change(item: object) -> Change:
    match item:
        case [int(number), str(topic), None]:
            return Change(number, topic)
        case [int(number), str(topic), list(partitions)] if all(type(one) is int and 0 <= one <= MAX_INT for one in partitions):
            return Change(number, topic, tuple(partitions))
    raise ValueError(f"a change must be a number, a topic and partitions, and is {str(item)[:80]}")
