"""Which logs of this broker are still to be opened, and in what order. Pure.

Topics take turns, a portion of the logs of one at a time: a small topic is not held up by a large one that was created before it. Until
its last portion is done, clients see no more partitions of a topic than they saw before: a new topic is not there, one that grows has its
former number.

A topic that was deleted and created again is another topic: what is done for the first does not count for the second.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from millstream.coordination.cluster_view import TopicState

PORTION: Final = 64
"""Logs that are opened together: about 100 ms, for which the deletion of their topic waits."""


class Portion(NamedTuple):
    """Logs of one topic that are opened together."""

    topic: str
    topic_id: UUID
    indexes: tuple[int, ...]


class _Waiting(NamedTuple):
    """What is to be opened of one topic."""

    topic_id: UUID
    indexes: dict[int, None]
    shown: int


class UnopenedLogs:
    """The logs that wait, by topic."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        """In the order of their turns."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def shown_partitions(self) -> dict[str, int]:
        """The topics with logs that wait, and how many of their partitions clients see until they are open."""
        return {name: waiting.shown for name, waiting in self._waiting.items()}

    def add(self, topic: TopicState, indexes: Iterable[int], *, shown: int) -> None:
        """These logs are to be opened, too; clients see so many partitions of the topic until then."""
        waiting = self._waiting.get(topic.name)
        if waiting is None or waiting.topic_id != topic.topic_id:
            waiting = _Waiting(topic.topic_id, {}, shown)
            self._waiting[topic.name] = waiting
        waiting.indexes.update(dict.fromkeys(indexes))

    def forget(self, topic: str) -> None:
        """The topic is gone."""
        self._waiting.pop(topic, None)

    def next_portion(self) -> Portion | None:
        """What to open now; it waits until it is `done`."""
        for name, waiting in self._waiting.items():
            return Portion(name, waiting.topic_id, tuple(waiting.indexes)[:PORTION])
        return None

    def done(self, portion: Portion) -> bool:
        """The logs are open, or cannot be opened; whether that was the last portion of the topic, which clients may see now."""
        waiting = self._waiting.get(portion.topic)
        if waiting is None or waiting.topic_id != portion.topic_id:
            return False
        for index in portion.indexes:
            waiting.indexes.pop(index, None)
        del self._waiting[portion.topic]
        if waiting.indexes:
            self._waiting[portion.topic] = waiting
        return not waiting.indexes
