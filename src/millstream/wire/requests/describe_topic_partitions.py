"""DescribeTopicPartitionsRequest (key 75), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class TopicRequest(NamedTuple):
    """A part of it."""

    name: str = ""


TOPIC_REQUEST: Final = Layout(
    TopicRequest,
    (Field("name", "string", 0, 0),),
)


class Cursor(NamedTuple):
    """A part of it."""

    topic_name: str = ""
    partition_index: int = 0


CURSOR: Final = Layout(
    Cursor,
    (
        Field("topic_name", "string", 0, 0),
        Field("partition_index", "int32", 0, 0),
    ),
)


class DescribeTopicPartitionsRequest(NamedTuple):
    """The message."""

    topics: tuple[TopicRequest, ...] = ()
    response_partition_limit: int = 2000
    cursor: Cursor | None = None


LAYOUT: Final = Layout(
    DescribeTopicPartitionsRequest,
    (
        Field("topics", STRUCTURE, 0, 0, is_array=True, nested=TOPIC_REQUEST),
        Field("response_partition_limit", "int32", 0, 0, default=2000),
        Field("cursor", STRUCTURE, 0, 0, default=None, nullable_from=0, nested=CURSOR),
    ),
)
