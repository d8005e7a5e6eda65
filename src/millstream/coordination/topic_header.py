"""What all partitions of a topic have in common, as the topic's znode says it. The state of each partition has a znode of its own below.

    /brokers/topics/<topic>   {"topic_id": ..., "configs": {...}, "partitions": 3, "phase": ""}

A topic that is too large for one transaction is written, and removed, in several. Its phase says so, and it is there for clients only while
it is complete: one that is still being created is removed by the next controller, the removal of one that is being deleted is resumed.

The znode can be edited by anyone, so `decode` is strict: it raises ValueError, naming the field, for everything that we would not have
written.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Self
from uuid import UUID

from millstream.coordination.topic_names import check_name
from millstream.errors import InvalidTopic
from millstream.json_object import JsonObject

COMPLETE: Final = ""
CREATING: Final = "creating"
DELETING: Final = "deleting"
_PHASES = (COMPLETE, CREATING, DELETING)


class TopicHeader(NamedTuple):
    """The content of a topic's znode."""

    topic_id: UUID
    configs: Mapping[str, str]
    partitions: int
    """How many there are; znodes of partitions beyond that belong to a growth that is not finished."""
    phase: str = COMPLETE

    def encode(self) -> bytes:
        """The content of the znode."""
        fields = {"topic_id": str(self.topic_id), "configs": dict(self.configs), "partitions": self.partitions, "phase": self.phase}
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, name: str, data: bytes) -> Self:
        """What the znode of the topic of that name says; ValueError if that makes no sense."""
        try:
            check_name(name)
        except InvalidTopic as error:
            raise ValueError(str(error)) from None
        fields = JsonObject.parse(data)
        phase = fields.text("phase")
        if phase not in _PHASES:
            raise ValueError(f"phase must be one of {list(_PHASES)}, and is {phase[:80]!r}")
        configs = MappingProxyType(fields.texts("configs"))
        return cls(_decode_topic_id(fields.text("topic_id")), configs, fields.integer("partitions", lowest=1), phase)


def _decode_topic_id(text: str) -> UUID:
    topic_id = UUID(text)
    if str(topic_id) != text or not topic_id.int:
        raise ValueError(f"topic_id must be an id such as {UUID(int=7)}, and is {text[:80]!r}")
    return topic_id
