"""Which topics the members of a KIP-848 group read: names, and expressions that are matched against all topics.

The answers are kept until a member, an expression's record or the topics change. An expression is matched anew against all names when it is
new (or the group was just loaded), and only against new names afterwards; see `topic_patterns` for how that stays harmless. Until an
expression has been matched for the first time it stands for no topics.
"""

from collections.abc import Collection, Iterable, Iterator
from hashlib import blake2b
from typing import Final
from uuid import UUID

from millstream.groups.consumer.group_state import ConsumerGroupState
from millstream.groups.consumer.records import MemberMetadata
from millstream.groups.consumer.topic_patterns import MatchingBudget, TopicScan
from millstream.groups.topic_image import TopicImage

NO_HASH: Final = 0
"""Kafka's sign for "none": no topics have been assigned in the group yet."""


class ConsumerSubscriptions:
    """The subscriptions of one group, resolved."""

    __slots__ = ("_budget", "_names", "_scans", "_state", "_topic_ids", "image")

    def __init__(self, state: ConsumerGroupState, *, budget: MatchingBudget) -> None:
        self.image = TopicImage()
        self._state = state
        self._budget = budget
        self._scans: dict[str, TopicScan] = {}
        self._names: frozenset[str] | None = None
        self._topic_ids: dict[tuple[tuple[str, ...], str | None], frozenset[UUID]] = {}

    def invalidate(self) -> None:
        """A member or an expression changed."""
        self._names = None
        self._topic_ids.clear()

    def names(self) -> frozenset[str]:
        """All topics that a member subscribes to, whether they exist or not."""
        if self._names is None:
            names: set[str] = set()
            for subscription in {_subscription(member.metadata) for member in self._state.members.values()}:
                names.update(self._names_of(*subscription))
            self._names = frozenset(names)
        return self._names

    def topic_ids(self, metadata: MemberMetadata) -> frozenset[UUID]:
        """The topics that a member subscribes to, as far as they exist. Equal subscriptions get the same object."""
        subscription = _subscription(metadata)
        topic_ids = self._topic_ids.get(subscription)
        if topic_ids is None:
            topics = self.image.topics
            topic_ids = frozenset(topics[name].topic_id for name in self._names_of(*subscription) if name in topics)
            self._topic_ids[subscription] = topic_ids
        return topic_ids

    def partition_counts(self) -> dict[UUID, int]:
        """The sizes of all topics that a member subscribes to and that exist."""
        topics = self.image.topics
        return {topics[name].topic_id: topics[name].partition_count for name in self.names() if name in topics}

    def metadata_hash(self) -> int:
        """A number that changes when subscribed topics come, go or get partitions; never `NO_HASH`."""
        digest = blake2b(digest_size=8)
        topics = self.image.topics
        for name in sorted(self.names()):
            if name in topics:
                digest.update(b"%b %b %d\n" % (name.encode(), topics[name].topic_id.bytes, topics[name].partition_count))
        return int.from_bytes(digest.digest(), "big", signed=True) or 1

    def _names_of(self, names: tuple[str, ...], expression: str | None) -> Iterator[str]:
        yield from names
        resolved = self._state.expressions.get(expression) if expression else None
        if resolved is not None:
            yield from resolved.topics

    # --- expressions ----------------------------------------------------------------------------------------------------------------------

    def start_scan(self, expression: str) -> None:
        """Match an expression against all topics."""
        self._scans[expression] = TopicScan(expression, names=tuple(self.image.topics))

    def stop_scan(self, expression: str) -> None:
        """No member subscribes with it any more."""
        self._scans.pop(expression, None)

    def has_scans(self) -> bool:
        """Whether an expression is still to be matched against topics."""
        return bool(self._scans)

    def change_image(self, image: TopicImage, *, changed: Collection[str] | None = None) -> bool:
        """Other topics than before: match the expressions against the new ones. Whether subscribed topics may be among what changed."""
        before, self.image = self.image, image
        if changed is None:
            changed = before.topics.keys() | image.topics.keys()
        expressions = self._expressions()
        if expressions:
            self._rescan(expressions, before, changed)
        names = self.names()
        subscribed = [name for name in changed if name in names]
        if subscribed:
            self._topic_ids.clear()
        # The first topics after a replay are compared with the hash in the record.
        return not before.topics or any(before.topics.get(name) != image.topics.get(name) for name in subscribed)

    def _expressions(self) -> list[str]:
        """What members subscribe with."""
        return sorted(filter(None, {member.metadata.subscribed_topic_regex for member in self._state.members.values()}))

    def _rescan(self, expressions: Iterable[str], before: TopicImage, changed: Iterable[str]) -> None:
        topics = self.image.topics
        new_names, gone = [], set()
        for name in changed:
            if name in topics and name not in before.topics:
                new_names.append(name)
            elif name not in topics:
                gone.add(name)
        for expression in expressions:
            resolved = self._state.expressions.get(expression)
            if resolved is None or not before.topics or expression in self._scans:
                self.start_scan(expression)
            elif new_names or not gone.isdisjoint(resolved.topics):
                kept = [name for name in resolved.topics if name not in gone]
                self._scans[expression] = TopicScan(expression, names=new_names, already_matched=kept)

    def scanned(self, now_ms: int) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Match as much as there is time for; the expressions that are done, with all their topics."""
        self._budget.refill(now_ms)
        for expression, scan in list(self._scans.items()):
            if not scan.proceed(self._budget):
                return
            del self._scans[expression]
            yield expression, tuple(sorted(scan.matched))


def _subscription(metadata: MemberMetadata) -> tuple[tuple[str, ...], str | None]:
    return metadata.subscribed_topic_names, metadata.subscribed_topic_regex
