"""UpdateRaftVoterResponse (key 82), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class CurrentLeader(NamedTuple):
    """A part of it."""

    leader_id: int = -1
    leader_epoch: int = -1
    host: str = ""
    port: int = 0


CURRENT_LEADER: Final = Layout(
    CurrentLeader,
    (
        Field("leader_id", "int32", 0, 0, default=-1),
        Field("leader_epoch", "int32", 0, 0, default=-1),
        Field("host", "string", 0, 0),
        Field("port", "int32", 0, 0),
    ),
)


class UpdateRaftVoterResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    current_leader: CurrentLeader = CurrentLeader()


LAYOUT: Final = Layout(
    UpdateRaftVoterResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("current_leader", STRUCTURE, 0, 0, default=CurrentLeader(), tag=0, nested=CURRENT_LEADER),
    ),
)
