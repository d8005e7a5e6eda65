"""DescribeQuorumRequest (key 55), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0


PARTITION_DATA: Final = Layout(
    PartitionData,
    (Field("partition_index", "int32", 0, 2),),
)


class TopicData(NamedTuple):
    """A part of it."""

    topic_name: str = ""
    partitions: tuple[PartitionData, ...] = ()


TOPIC_DATA: Final = Layout(
    TopicData,
    (
        Field("topic_name", "string", 0, 2),
        Field("partitions", STRUCTURE, 0, 2, is_array=True, nested=PARTITION_DATA),
    ),
)


class DescribeQuorumRequest(NamedTuple):
    """The message."""

    topics: tuple[TopicData, ...] = ()


LAYOUT: Final = Layout(
    DescribeQuorumRequest,
    (Field("topics", STRUCTURE, 0, 2, is_array=True, nested=TOPIC_DATA),),
)
