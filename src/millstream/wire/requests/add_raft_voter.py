"""AddRaftVoterRequest (key 80), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class Listener(NamedTuple):
    """A part of it."""

    name: str = ""
    host: str = ""
    port: int = 0


LISTENER: Final = Layout(
    Listener,
    (
        Field("name", "string", 0, 1),
        Field("host", "string", 0, 1),
        Field("port", "uint16", 0, 1),
    ),
)


class AddRaftVoterRequest(NamedTuple):
    """The message."""

    cluster_id: str | None = ""
    timeout_ms: int = 0
    voter_id: int = 0
    voter_directory_id: UUID | None = None
    listeners: tuple[Listener, ...] = ()
    ack_when_committed: bool = True


LAYOUT: Final = Layout(
    AddRaftVoterRequest,
    (
        Field("cluster_id", "string", 0, 1, nullable_from=0),
        Field("timeout_ms", "timedelta_i32", 0, 1),
        Field("voter_id", "int32", 0, 1),
        Field("voter_directory_id", "uuid", 0, 1, nullable_from=0),
        Field("listeners", STRUCTURE, 0, 1, is_array=True, nested=LISTENER),
        Field("ack_when_committed", "bool", 1, 1, default=True),
    ),
)
