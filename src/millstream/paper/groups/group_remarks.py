"""What a member of a group has to say about its group, each thing once: a topic that was deleted, and partitions that are with others.

A stream waits without a word when there is nothing for it to read, as it should: it never ends. Whoever looks at it then has to be able to
learn why, so what keeps a consumer waiting goes to the log. Pure: views in, sentences out.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from millstream.paper.groups.assignment import Subscription
from millstream.paper.groups.group_view import GroupView

_MOST_NAMED = 5


class GroupRemarks:
    """Remembers what was said about the topics of one consumer."""

    def __init__(self, *, group: str, consumer_id: str, topics: Sequence[str]) -> None:
        self._group = group
        self._consumer_id = consumer_id
        self._topics = topics
        self._deleted: set[str] = set()
        self._without_partition: set[str] = set()

    def on_topics(self, existing: Collection[str]) -> Iterator[str]:
        """That a topic was deleted, or is there again."""
        for topic in self._topics:
            if topic not in existing and topic not in self._deleted:
                self._deleted.add(topic)
                yield f"the topic {topic!r} was deleted: its streams wait until there is a topic of this name again, or they are closed"
            elif topic in existing and topic in self._deleted:
                self._deleted.remove(topic)
                yield f"there is a topic {topic!r} again: its streams go on with it"

    def on_partitions(self, view: GroupView, owned: Collection[str]) -> Iterator[str]:
        """That others have all partitions of a topic, and when they give them up; of those that are `owned` this consumer has some."""
        self._without_partition.difference_update(owned)
        for topic in self._topics:
            others = self._readers_beside(topic, view.subscriptions)
            if topic in owned or topic in self._without_partition or not others or not view.partitions.get(topic):
                continue
            self._without_partition.add(topic)
            count = len(view.partitions[topic])
            yield (
                f"consumer {self._consumer_id} of the group {self._group!r} has no partition of {topic!r}: all {count} are with"
                f" {_names(list(others))}. A consumer that leaves gives its partitions up at once; those of one that was killed"
                f" come free when its session ends{_at_most(others.values())}"
            )

    def _readers_beside(self, topic: str, subscriptions: Mapping[str, Subscription]) -> dict[str, Subscription]:
        return {name: one for name, one in subscriptions.items() if name != self._consumer_id and topic in one.topics}


def _names(consumers: Sequence[str]) -> str:
    more = f" and {len(consumers) - _MOST_NAMED} more" if len(consumers) > _MOST_NAMED else ""
    return ", ".join(sorted(consumers)[:_MOST_NAMED]) + more


def _at_most(subscriptions: Collection[Subscription]) -> str:
    """How long a killed consumer's session lasts at most; nothing if one of them does not say it."""
    known = [one.session_timeout_ms for one in subscriptions if one.session_timeout_ms is not None]
    return f", at most {max(known) / 1000:g} s from now" if known and len(known) == len(subscriptions) else ""
