"""HeartbeatRequest (key 12), versions 0 to 4. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class HeartbeatRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None


LAYOUT: Final = Layout(
    HeartbeatRequest,
    (
        Field("group_id", "string", 0, 4),
        Field("generation_id", "int32", 0, 4),
        Field("member_id", "string", 0, 4),
        Field("group_instance_id", "string", 3, 4, default=None, nullable_from=3),
    ),
)
