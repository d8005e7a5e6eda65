"""Which partition a message goes to, decided before it is handed to librdkafka, by librdkafka's own rules. So a producer that takes part in
the audit knows where its messages are, without a delivery report for each.

A key is hashed with murmur2. Messages without a key go to one partition at random for ten milliseconds, then to another, among those that
have a leader. Which partitions a topic has is asked when it is first used, and from then on read from librdkafka's statistics.

With another `partitioner` than `murmur2_random`, librdkafka decides, and no partition is known (`ANY_PARTITION`).
"""

from collections.abc import Callable, Mapping
from random import choice
from threading import Event
from time import monotonic
from typing import Any, Final

from millstream.audit.reports.report import ANY_PARTITION
from millstream.paper.librdkafka import key_hasher
from millstream.paper.settings import Setting

OUR_PARTITIONER: Final = "murmur2_random"
STICKY_S: Final = 0.01
"""As librdkafka's `sticky.partitioning.linger.ms`: messages without a key that come together are one batch."""
_CACHED_KEYS: Final = 10_000
_ASK_S: Final = 0.5
_ASK_AGAIN_S: Final = 5.0
_PAUSE_S: Final = 0.02
_partition_of: Final = key_hasher()

Leaders = Mapping[int, int]
"""By partition; negative where there is none."""


class KeyPartitions(dict[bytes, int]):
    """The partitions of keys, of a topic with so many; the latest keys are remembered."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def __missing__(self, key: bytes) -> int:
        if len(self) >= _CACHED_KEYS:
            self.clear()
        partition = self[key] = _partition_of(key, self.count) if self.count else ANY_PARTITION
        return partition


class ProducerPartitions:
    """The partitions of the topics of one producer; safe for many threads."""

    def __init__(self, options: Mapping[str, Setting], *, leaders_of: Callable[[str], Leaders]) -> None:
        """`leaders_of` asks the brokers; it gives nothing while a topic is not there."""
        self.is_deciding = options.get("partitioner", OUR_PARTITIONER) == OUR_PARTITIONER
        self._leaders_of = leaders_of
        self._available: dict[str, list[int]] = {}
        self._keys: dict[str, KeyPartitions] = {}
        self._chosen: dict[str, tuple[int, float]] = {}
        """By topic, where messages without a key go, and until when."""
        self._ask_at: dict[str, float] = {}

    def is_known(self, topic: str) -> bool:
        """Whether it can be decided where messages of the topic go, or librdkafka does. May ask the brokers, for half a second at most."""
        return not self.is_deciding or topic in self._keys or self._ask(topic)

    def for_keyless(self, topic: str) -> int:
        """The partition for messages without a key, at this moment."""
        now = monotonic()
        partition, until = self._chosen.get(topic, _EXPIRED)
        if now >= until:
            partition = choice(self._available.get(topic, _ANYWHERE))
            self._chosen[topic] = partition, now + STICKY_S
        return partition

    def for_message(self, topic: str, key: bytes | None) -> int:
        """The partition for one message; `ANY_PARTITION` where that is not known, or not decided here."""
        if not self.is_known(topic):
            return ANY_PARTITION
        return self.for_keyless(topic) if key is None else self.for_keys(topic)[key]

    def for_keys(self, topic: str) -> KeyPartitions:
        """The partition of each key."""
        return self._keys.get(topic, _NOWHERE)

    def feed(self, statistics: Mapping[str, Any]) -> None:
        """Learn from librdkafka's statistics, of topics that are in use."""
        for topic, about in statistics["topics"].items():
            if topic in self._keys:
                self._learn(topic, {int(name): one["leader"] for name, one in about["partitions"].items() if not one["unknown"]})

    def forget(self, topic: str) -> None:
        """It has fewer partitions than it had: it was created anew."""
        self._keys.pop(topic, None)
        self._available.pop(topic, None)
        self._chosen.pop(topic, None)

    def _ask(self, topic: str) -> bool:
        now = monotonic()
        if now < self._ask_at.get(topic, 0.0):
            return False
        while topic not in self._keys and monotonic() < now + _ASK_S:
            self._learn(topic, self._leaders_of(topic))
            if topic not in self._keys:
                Event().wait(_PAUSE_S)
        self._ask_at[topic] = monotonic() + _ASK_AGAIN_S
        return topic in self._keys

    def _learn(self, topic: str, leaders: Leaders) -> None:
        real = {partition: leader for partition, leader in leaders.items() if partition >= 0}
        if real:
            self._available[topic] = [partition for partition, leader in real.items() if leader >= 0] or list(real)
            if self.for_keys(topic).count != len(real):
                self._keys[topic] = KeyPartitions(len(real))


_NOWHERE: Final = KeyPartitions(0)
_ANYWHERE: Final = [ANY_PARTITION]
"""Where librdkafka decides."""
_EXPIRED: Final = (ANY_PARTITION, 0.0)
