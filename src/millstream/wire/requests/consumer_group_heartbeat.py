"""ConsumerGroupHeartbeatRequest (key 68), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class TopicPartitions(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[int, ...] = ()


TOPIC_PARTITIONS: Final = Layout(
    TopicPartitions,
    (
        Field("topic_id", "uuid", 0, 1, nullable_from=0),
        Field("partitions", "int32", 0, 1, default=(), is_array=True),
    ),
)


class ConsumerGroupHeartbeatRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = ()


LAYOUT: Final = Layout(
    ConsumerGroupHeartbeatRequest,
    (
        Field("group_id", "string", 0, 1),
        Field("member_id", "string", 0, 1),
        Field("member_epoch", "int32", 0, 1),
        Field("instance_id", "string", 0, 1, default=None, nullable_from=0),
        Field("rack_id", "string", 0, 1, default=None, nullable_from=0),
        Field("rebalance_timeout_ms", "timedelta_i32", 0, 1, default=-1),
        Field("subscribed_topic_names", "string", 0, 1, default=None, is_array=True, nullable_from=0),
        Field("subscribed_topic_regex", "string", 1, 1, default=None, nullable_from=1),
        Field("server_assignor", "string", 0, 1, default=None, nullable_from=0),
        Field("topic_partitions", STRUCTURE, 0, 1, is_array=True, nullable_from=0, nested=TOPIC_PARTITIONS),
    ),
)
