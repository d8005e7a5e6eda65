"""ShareGroupHeartbeatRequest (key 76), versions 1 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class ShareGroupHeartbeatRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None


LAYOUT: Final = Layout(
    ShareGroupHeartbeatRequest,
    (
        Field("group_id", "string", 1, 1),
        Field("member_id", "string", 1, 1),
        Field("member_epoch", "int32", 1, 1),
        Field("rack_id", "string", 1, 1, default=None, nullable_from=1),
        Field("subscribed_topic_names", "string", 1, 1, default=None, is_array=True, nullable_from=1),
    ),
)
