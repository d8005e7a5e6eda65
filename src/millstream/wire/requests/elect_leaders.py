"""ElectLeadersRequest (key 43), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class TopicPartitions(NamedTuple):
    """A part of it."""

    topic: str = ""
    partitions: tuple[int, ...] = ()


TOPIC_PARTITIONS: Final = Layout(
    TopicPartitions,
    (
        Field("topic", "string", 0, 2),
        Field("partitions", "int32", 0, 2, default=(), is_array=True),
    ),
)


class ElectLeadersRequest(NamedTuple):
    """The message."""

    election_type: int = 0
    topic_partitions: tuple[TopicPartitions, ...] | None = ()
    timeout_ms: int = 60000


LAYOUT: Final = Layout(
    ElectLeadersRequest,
    (
        Field("election_type", "int8", 1, 2),
        Field("topic_partitions", STRUCTURE, 0, 2, is_array=True, nullable_from=0, nested=TOPIC_PARTITIONS),
        Field("timeout_ms", "timedelta_i32", 0, 2, default=60000),
    ),
)
