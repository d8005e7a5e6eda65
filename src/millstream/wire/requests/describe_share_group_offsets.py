"""DescribeShareGroupOffsetsRequest (key 90), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DescribeShareGroupOffsetsRequestTopic(NamedTuple):
    """A part of it."""

    topic_name: str = ""
    partitions: tuple[int, ...] = ()


DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST_TOPIC: Final = Layout(
    DescribeShareGroupOffsetsRequestTopic,
    (
        Field("topic_name", "string", 0, 1),
        Field("partitions", "int32", 0, 1, default=(), is_array=True),
    ),
)


class DescribeShareGroupOffsetsRequestGroup(NamedTuple):
    """A part of it."""

    group_id: str = ""
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None = ()


DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST_GROUP: Final = Layout(
    DescribeShareGroupOffsetsRequestGroup,
    (
        Field("group_id", "string", 0, 1),
        Field("topics", STRUCTURE, 0, 1, is_array=True, nullable_from=0, nested=DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST_TOPIC),
    ),
)


class DescribeShareGroupOffsetsRequest(NamedTuple):
    """The message."""

    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...] = ()


LAYOUT: Final = Layout(
    DescribeShareGroupOffsetsRequest,
    (Field("groups", STRUCTURE, 0, 1, is_array=True, nested=DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST_GROUP),),
)
