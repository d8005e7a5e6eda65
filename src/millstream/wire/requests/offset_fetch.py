"""OffsetFetchRequest (key 9), versions 1 to 10. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class OffsetFetchRequestTopics(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


OFFSET_FETCH_REQUEST_TOPICS: Final = Layout(
    OffsetFetchRequestTopics,
    (
        Field("topic_id", "uuid", 10, 10, nullable_from=10),
        Field("name", "string", 8, 9),
        Field("partition_indexes", "int32", 8, 10, default=(), is_array=True),
    ),
)


class OffsetFetchRequestGroup(NamedTuple):
    """A part of it."""

    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None = ()


OFFSET_FETCH_REQUEST_GROUP: Final = Layout(
    OffsetFetchRequestGroup,
    (
        Field("group_id", "string", 8, 10),
        Field("member_id", "string", 9, 10, default=None, nullable_from=9),
        Field("member_epoch", "int32", 9, 10, default=-1),
        Field("topics", STRUCTURE, 8, 10, is_array=True, nullable_from=8, nested=OFFSET_FETCH_REQUEST_TOPICS),
    ),
)


class OffsetFetchRequestTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    partition_indexes: tuple[int, ...] = ()


OFFSET_FETCH_REQUEST_TOPIC: Final = Layout(
    OffsetFetchRequestTopic,
    (
        Field("name", "string", 1, 7),
        Field("partition_indexes", "int32", 1, 7, default=(), is_array=True),
    ),
)


class OffsetFetchRequest(NamedTuple):
    """The message."""

    groups: tuple[OffsetFetchRequestGroup, ...] = ()
    group_id: str = ""
    topics: tuple[OffsetFetchRequestTopic, ...] | None = ()
    require_stable: bool = False


LAYOUT: Final = Layout(
    OffsetFetchRequest,
    (
        Field("groups", STRUCTURE, 8, 10, is_array=True, nested=OFFSET_FETCH_REQUEST_GROUP),
        Field("group_id", "string", 1, 7),
        Field("topics", STRUCTURE, 1, 7, is_array=True, nullable_from=2, nested=OFFSET_FETCH_REQUEST_TOPIC),
        Field("require_stable", "bool", 7, 10, default=False),
    ),
)
