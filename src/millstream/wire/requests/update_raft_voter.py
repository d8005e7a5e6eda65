"""UpdateRaftVoterRequest (key 82), versions 0 to 0. Written by `codegen.messages`: do not edit."""

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
        Field("name", "string", 0, 0),
        Field("host", "string", 0, 0),
        Field("port", "uint16", 0, 0),
    ),
)


class KRaftVersionFeature(NamedTuple):
    """A part of it."""

    min_supported_version: int = 0
    max_supported_version: int = 0


K_RAFT_VERSION_FEATURE: Final = Layout(
    KRaftVersionFeature,
    (
        Field("min_supported_version", "int16", 0, 0),
        Field("max_supported_version", "int16", 0, 0),
    ),
)


class UpdateRaftVoterRequest(NamedTuple):
    """The message."""

    cluster_id: str | None = ""
    current_leader_epoch: int = 0
    voter_id: int = 0
    voter_directory_id: UUID | None = None
    listeners: tuple[Listener, ...] = ()
    k_raft_version_feature: KRaftVersionFeature = KRaftVersionFeature()


LAYOUT: Final = Layout(
    UpdateRaftVoterRequest,
    (
        Field("cluster_id", "string", 0, 0, nullable_from=0),
        Field("current_leader_epoch", "int32", 0, 0),
        Field("voter_id", "int32", 0, 0),
        Field("voter_directory_id", "uuid", 0, 0, nullable_from=0),
        Field("listeners", STRUCTURE, 0, 0, is_array=True, nested=LISTENER),
        Field("k_raft_version_feature", STRUCTURE, 0, 0, nested=K_RAFT_VERSION_FEATURE),
    ),
)
