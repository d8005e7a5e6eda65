"""The topics that a group coordinator needs to know of, as one immutable value: names, ids, numbers of partitions."""

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
