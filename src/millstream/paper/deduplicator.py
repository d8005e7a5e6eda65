"""Leaving out what has been seen: the paper's delivery is at least once, and exactly once is the application's business. Mostly it is this.

    deduplicator = Deduplicator()                                # by partition and offset: what a crash made a stream repeat
    for message in deduplicator.filter(stream): ...

    deduplicator = Deduplicator(key=lambda message: message.key)  # by a key of the message: what a producer repeated

By offset, a message is new if it lies behind all that were seen of its partition: exact, as a partition is read in order, and a number per
partition is all it takes. Keep `positions` with your results (in the same transaction of your database) and hand them in again after a
restart, and each message has its effect once. By key, the last `capacity` keys are remembered, the least recently seen are forgotten first.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Final

from millstream.errors import UsageError
from millstream.paper.message import ConsumedMessage
from millstream.topic_partition import TopicPartition

CAPACITY: Final = 1_000_000

KeyOf = Callable[[ConsumedMessage], Hashable]


class Deduplicator:
    """Knows which messages have been seen. One thread at a time."""

    def __init__(
        self, *, key: KeyOf | None = None, capacity: int = CAPACITY, positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        if capacity < 1:
            raise UsageError(f"capacity={capacity}: remember at least one key")
        if key is not None and positions is not None:
            raise UsageError("positions are for a deduplicator by offset, key= is for one by key: give one of the two")
        self._key = key
        self._capacity = capacity
        self._keys: OrderedDict[Hashable, None] = OrderedDict()
        self._next = dict(positions or {})

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """For each partition the offset from which on messages are new."""
        return dict(self._next)

    def is_new(self, message: ConsumedMessage) -> bool:
        """Whether this message is seen for the first time; from now on it has been seen."""
        if self._key is not None:
            return self._is_new_key(self._key(message))
        place = TopicPartition(message.topic, message.partition)
        if message.offset < self._next.get(place, 0):
            return False
        self._next[place] = message.offset + 1
        return True

    def filter(self, messages: Iterable[ConsumedMessage]) -> Iterator[ConsumedMessage]:
        """The messages of a stream, or of any list, without those that were seen before."""
        return (message for message in messages if self.is_new(message))

    def _is_new_key(self, key: Hashable) -> bool:
        if key in self._keys:
            self._keys.move_to_end(key)
            return False
        self._keys[key] = None
        if len(self._keys) > self._capacity:
            self._keys.popitem(last=False)
        return True
