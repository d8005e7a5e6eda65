"""DescribeLogDirsRequest (key 35), versions 1 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DescribableLogDirTopic(NamedTuple):
    """A part of it."""

    topic: str = ""
    partitions: tuple[int, ...] = ()


DESCRIBABLE_LOG_DIR_TOPIC: Final = Layout(
    DescribableLogDirTopic,
    (
        Field("topic", "string", 1, 5),
        Field("partitions", "int32", 1, 5, default=(), is_array=True),
    ),
)


class DescribeLogDirsRequest(NamedTuple):
    """The message."""

    topics: tuple[DescribableLogDirTopic, ...] | None = ()


LAYOUT: Final = Layout(
    DescribeLogDirsRequest,
    (Field("topics", STRUCTURE, 1, 5, is_array=True, nullable_from=1, nested=DESCRIBABLE_LOG_DIR_TOPIC),),
)
