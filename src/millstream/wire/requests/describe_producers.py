"""DescribeProducersRequest (key 61), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class TopicRequest(NamedTuple):
    """A part of it."""

    name: str = ""
    partition_indexes: tuple[int, ...] = ()


TOPIC_REQUEST: Final = Layout(
    TopicRequest,
    (
        Field("name", "string", 0, 0),
        Field("partition_indexes", "int32", 0, 0, default=(), is_array=True),
    ),
)


class DescribeProducersRequest(NamedTuple):
    """The message."""

    topics: tuple[TopicRequest, ...] = ()


LAYOUT: Final = Layout(
    DescribeProducersRequest,
    (Field("topics", STRUCTURE, 0, 0, is_array=True, nested=TOPIC_REQUEST),),
)
