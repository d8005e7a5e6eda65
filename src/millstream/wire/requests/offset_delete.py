"""OffsetDeleteRequest (key 47), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class OffsetDeleteRequestPartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0


OFFSET_DELETE_REQUEST_PARTITION: Final = Layout(
    OffsetDeleteRequestPartition,
    (Field("partition_index", "int32", 0, 0),),
)


class OffsetDeleteRequestTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


OFFSET_DELETE_REQUEST_TOPIC: Final = Layout(
    OffsetDeleteRequestTopic,
    (
        Field("name", "string", 0, 0),
        Field("partitions", STRUCTURE, 0, 0, is_array=True, nested=OFFSET_DELETE_REQUEST_PARTITION),
    ),
)


class OffsetDeleteRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()


LAYOUT: Final = Layout(
    OffsetDeleteRequest,
    (
        Field("group_id", "string", 0, 0),
        Field("topics", STRUCTURE, 0, 0, is_array=True, nested=OFFSET_DELETE_REQUEST_TOPIC),
    ),
)
