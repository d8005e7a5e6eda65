"""The topics that a group coordinator needs to know of, as one immutable value: names, ids, numbers of partitions.

A change makes a new value out of the old one (`with_changes`), and comes with the names that changed: however many topics
there are, those that stayed as they were are not looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID


class TopicInfo(NamedTuple):
    """A topic that exists."""

    topic_id: UUID
    partition_count: int


@dataclass(frozen=True, slots=True)
class TopicImage:
    """All topics at one moment, by name and by id."""

    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", {info.topic_id: name for name, info in self.topics.items()})

    def with_changes(self, changed: Mapping[str, TopicInfo | None]) -> "TopicImage":
        """The image with some topics replaced, added or (None) removed."""
        topics, names = dict(self.topics), dict(self.names)
        for name, info in changed.items():
            former = topics.pop(name, None)
            if former is not None:
                names.pop(former.topic_id, None)
            if info is not None:
                topics[name] = info
                names[info.topic_id] = name
        image = TopicImage()
        object.__setattr__(image, "topics", topics)
        object.__setattr__(image, "names", names)
        return image
