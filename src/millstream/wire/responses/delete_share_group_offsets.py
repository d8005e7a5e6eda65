"""DeleteShareGroupOffsetsResponse (key 92), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class DeleteShareGroupOffsetsResponseTopic(NamedTuple):
    """A part of it."""

    topic_name: str = ""
    topic_id: UUID | None = None
    error_code: int = 0
    error_message: str | None = None


DELETE_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC: Final = Layout(
    DeleteShareGroupOffsetsResponseTopic,
    (
        Field("topic_name", "string", 0, 0),
        Field("topic_id", "uuid", 0, 0, nullable_from=0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("error_message", "string", 0, 0, default=None, nullable_from=0),
    ),
)


class DeleteShareGroupOffsetsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = ()


LAYOUT: Final = Layout(
    DeleteShareGroupOffsetsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("error_message", "string", 0, 0, default=None, nullable_from=0),
        Field("responses", STRUCTURE, 0, 0, is_array=True, nested=DELETE_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC),
    ),
)
