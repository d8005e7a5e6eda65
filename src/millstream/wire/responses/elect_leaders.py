"""ElectLeadersResponse (key 43), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionResult(NamedTuple):
    """A part of it."""

    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = ""


PARTITION_RESULT: Final = Layout(
    PartitionResult,
    (
        Field("partition_id", "int32", 0, 2),
        Field("error_code", "error_code", 0, 2, default=0),
        Field("error_message", "string", 0, 2, nullable_from=0),
    ),
)


class ReplicaElectionResult(NamedTuple):
    """A part of it."""

    topic: str = ""
    partition_result: tuple[PartitionResult, ...] = ()


REPLICA_ELECTION_RESULT: Final = Layout(
    ReplicaElectionResult,
    (
        Field("topic", "string", 0, 2),
        Field("partition_result", STRUCTURE, 0, 2, is_array=True, nested=PARTITION_RESULT),
    ),
)


class ElectLeadersResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()


LAYOUT: Final = Layout(
    ElectLeadersResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 2, default=0),
        Field("error_code", "error_code", 1, 2, default=0),
        Field("replica_election_results", STRUCTURE, 0, 2, is_array=True, nested=REPLICA_ELECTION_RESULT),
    ),
)
