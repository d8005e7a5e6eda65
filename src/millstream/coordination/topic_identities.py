"""An id belongs to one topic: who had it first keeps it."""

from collections.abc import Mapping
from uuid import UUID

from millstream.coordination.cluster_view import ClusterView, TopicState

Refusal = tuple[TopicState | None, ValueError]
"""What the topic stays instead, and why."""


def borrowed_ids(read: Mapping[str, TopicState | None], known: ClusterView) -> dict[str, Refusal]:
    """Which of the topics just read have an id that is another topic's.

    The topics that were not read are not gone through: there may be thousands.
    """

    def is_newcomer(name: str, topic: TopicState) -> bool:
        last = known.topics.get(name)
        return last is None or last.topic_id != topic.topic_id

    owners: dict[UUID, str] = {}
    refused = {}
    found = [(is_newcomer(name, topic), name, topic) for name, topic in read.items() if topic is not None]
    for _, name, topic in sorted(found, key=lambda one: one[:2]):
        known_owner = known.topics_by_id.get(topic.topic_id)
        is_settled = known_owner is not None and known_owner.name not in read
        owner = known_owner.name if known_owner is not None and is_settled else owners.setdefault(topic.topic_id, name)
        if owner != name:
            refused[name] = ValueError(f"topic_id is that of the topic {owner!r}")

    def kept(name: str) -> TopicState | None:
        last = known.topics.get(name)
        return last if last is not None and owners.setdefault(last.topic_id, name) == name else None

    return {name: (kept(name), error) for name, error in refused.items()}
