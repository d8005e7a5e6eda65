"""FetchRequest (key 1), versions 4 to 18. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class ReplicaState(NamedTuple):
    """A part of it."""

    replica_id: int = -1
    replica_epoch: int = -1


REPLICA_STATE: Final = Layout(
    ReplicaState,
    (
        Field("replica_id", "int32", 15, 18, default=-1),
        Field("replica_epoch", "int64", 15, 18, default=-1),
    ),
)


class FetchPartition(NamedTuple):
    """A part of it."""

    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: UUID | None = None
    high_watermark: int = 9223372036854775807


FETCH_PARTITION: Final = Layout(
    FetchPartition,
    (
        Field("partition", "int32", 4, 18),
        Field("current_leader_epoch", "int32", 9, 18, default=-1),
        Field("fetch_offset", "int64", 4, 18),
        Field("last_fetched_epoch", "int32", 12, 18, default=-1),
        Field("log_start_offset", "int64", 5, 18, default=-1),
        Field("partition_max_bytes", "int32", 4, 18),
        Field("replica_directory_id", "uuid", 17, 18, default=None, nullable_from=17, tag=0),
        Field("high_watermark", "int64", 18, 18, default=9223372036854775807, tag=1),
    ),
)


class FetchTopic(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    topic: str = ""
    partitions: tuple[FetchPartition, ...] = ()


FETCH_TOPIC: Final = Layout(
    FetchTopic,
    (
        Field("topic_id", "uuid", 13, 18, nullable_from=13),
        Field("topic", "string", 4, 12),
        Field("partitions", STRUCTURE, 4, 18, is_array=True, nested=FETCH_PARTITION),
    ),
)


class ForgottenTopic(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    topic: str = ""
    partitions: tuple[int, ...] = ()


FORGOTTEN_TOPIC: Final = Layout(
    ForgottenTopic,
    (
        Field("topic_id", "uuid", 13, 18, nullable_from=13),
        Field("topic", "string", 7, 12),
        Field("partitions", "int32", 7, 18, default=(), is_array=True),
    ),
)


class FetchRequest(NamedTuple):
    """The message."""

    cluster_id: str | None = None
    replica_state: ReplicaState = ReplicaState()
    replica_id: int = -1
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()
    rack_id: str = ""


LAYOUT: Final = Layout(
    FetchRequest,
    (
        Field("cluster_id", "string", 12, 18, default=None, nullable_from=12, tag=0),
        Field("replica_state", STRUCTURE, 15, 18, default=ReplicaState(), tag=1, nested=REPLICA_STATE),
        Field("replica_id", "int32", 4, 14, default=-1),
        Field("max_wait_ms", "timedelta_i32", 4, 18),
        Field("min_bytes", "int32", 4, 18),
        Field("max_bytes", "int32", 4, 18, default=2147483647),
        Field("isolation_level", "int8", 4, 18, default=0),
        Field("session_id", "int32", 7, 18, default=0),
        Field("session_epoch", "int32", 7, 18, default=-1),
        Field("topics", STRUCTURE, 4, 18, is_array=True, nested=FETCH_TOPIC),
        Field("forgotten_topics_data", STRUCTURE, 7, 18, is_array=True, nested=FORGOTTEN_TOPIC),
        Field("rack_id", "string", 11, 18, default=""),
    ),
)
