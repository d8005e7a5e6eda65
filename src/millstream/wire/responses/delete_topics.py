"""DeleteTopicsResponse (key 20), versions 1 to 6. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class DeletableTopicResult(NamedTuple):
    """A part of it."""

    name: str | None = ""
    topic_id: UUID | None = None
    error_code: int = 0
    error_message: str | None = None


DELETABLE_TOPIC_RESULT: Final = Layout(
    DeletableTopicResult,
    (
        Field("name", "string", 1, 6, nullable_from=6),
        Field("topic_id", "uuid", 6, 6, nullable_from=6),
        Field("error_code", "error_code", 1, 6, default=0),
        Field("error_message", "string", 5, 6, default=None, nullable_from=5),
    ),
)


class DeleteTopicsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    responses: tuple[DeletableTopicResult, ...] = ()


LAYOUT: Final = Layout(
    DeleteTopicsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 6, default=0),
        Field("responses", STRUCTURE, 1, 6, is_array=True, nested=DELETABLE_TOPIC_RESULT),
    ),
)
