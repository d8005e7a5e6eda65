"""AlterShareGroupOffsetsRequest (key 91), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class AlterShareGroupOffsetsRequestPartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    start_offset: int = 0


ALTER_SHARE_GROUP_OFFSETS_REQUEST_PARTITION: Final = Layout(
    AlterShareGroupOffsetsRequestPartition,
    (
        Field("partition_index", "int32", 0, 0),
        Field("start_offset", "int64", 0, 0),
    ),
)


class AlterShareGroupOffsetsRequestTopic(NamedTuple):
    """A part of it."""

    topic_name: str = ""
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...] = ()


ALTER_SHARE_GROUP_OFFSETS_REQUEST_TOPIC: Final = Layout(
    AlterShareGroupOffsetsRequestTopic,
    (
        Field("topic_name", "string", 0, 0),
        Field("partitions", STRUCTURE, 0, 0, is_array=True, nested=ALTER_SHARE_GROUP_OFFSETS_REQUEST_PARTITION),
    ),
)


class AlterShareGroupOffsetsRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...] = ()


LAYOUT: Final = Layout(
    AlterShareGroupOffsetsRequest,
    (
        Field("group_id", "string", 0, 0),
        Field("topics", STRUCTURE, 0, 0, is_array=True, nested=ALTER_SHARE_GROUP_OFFSETS_REQUEST_TOPIC),
    ),
)
