"""DeleteTopicsRequest (key 20), versions 1 to 6. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class DeleteTopicState(NamedTuple):
    """A part of it."""

    name: str | None = None
    topic_id: UUID | None = None


DELETE_TOPIC_STATE: Final = Layout(
    DeleteTopicState,
    (
        Field("name", "string", 6, 6, default=None, nullable_from=6),
        Field("topic_id", "uuid", 6, 6, nullable_from=6),
    ),
)


class DeleteTopicsRequest(NamedTuple):
    """The message."""

    topics: tuple[DeleteTopicState, ...] = ()
    topic_names: tuple[str, ...] = ()
    timeout_ms: int = 0


LAYOUT: Final = Layout(
    DeleteTopicsRequest,
    (
        Field("topics", STRUCTURE, 6, 6, is_array=True, nested=DELETE_TOPIC_STATE),
        Field("topic_names", "string", 1, 5, default=(), is_array=True),
        Field("timeout_ms", "timedelta_i32", 1, 6),
    ),
)
