"""RemoveRaftVoterRequest (key 81), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import Field, Layout


class RemoveRaftVoterRequest(NamedTuple):
    """The message."""

    cluster_id: str | None = ""
    voter_id: int = 0
    voter_directory_id: UUID | None = None


LAYOUT: Final = Layout(
    RemoveRaftVoterRequest,
    (
        Field("cluster_id", "string", 0, 0, nullable_from=0),
        Field("voter_id", "int32", 0, 0),
        Field("voter_directory_id", "uuid", 0, 0, nullable_from=0),
    ),
)
