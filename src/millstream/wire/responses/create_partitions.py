"""CreatePartitionsResponse (key 37), versions 0 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class CreatePartitionsTopicResult(NamedTuple):
    """A part of it."""

    name: str = ""
    error_code: int = 0
    error_message: str | None = None


CREATE_PARTITIONS_TOPIC_RESULT: Final = Layout(
    CreatePartitionsTopicResult,
    (
        Field("name", "string", 0, 3),
        Field("error_code", "error_code", 0, 3, default=0),
        Field("error_message", "string", 0, 3, default=None, nullable_from=0),
    ),
)


class CreatePartitionsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()


LAYOUT: Final = Layout(
    CreatePartitionsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 3, default=0),
        Field("results", STRUCTURE, 0, 3, is_array=True, nested=CREATE_PARTITIONS_TOPIC_RESULT),
    ),
)
