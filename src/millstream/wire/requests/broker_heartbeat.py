"""BrokerHeartbeatRequest (key 63), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import Field, Layout


class BrokerHeartbeatRequest(NamedTuple):
    """The message."""

    broker_id: int = 0
    broker_epoch: int = -1
    current_metadata_offset: int = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] | None = None


LAYOUT: Final = Layout(
    BrokerHeartbeatRequest,
    (
        Field("broker_id", "int32", 0, 2),
        Field("broker_epoch", "int64", 0, 2, default=-1),
        Field("current_metadata_offset", "int64", 0, 2),
        Field("want_fence", "bool", 0, 2),
        Field("want_shut_down", "bool", 0, 2),
        Field("offline_log_dirs", "uuid", 1, 2, default=(), is_array=True, tag=0),
        Field("cordoned_log_dirs", "uuid", 2, 2, default=None, is_array=True, nullable_from=2, tag=1),
    ),
)
