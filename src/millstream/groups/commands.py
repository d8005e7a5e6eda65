"""What a group coordinator can be asked to do: plain values, made by the handlers out of requests.

Every command names its group. Fields that older versions of a request lack have the default that Kafka gives them. Authorisation, the
existence of topics and the translation of topic ids to names happen before a command is made; what belongs to a group is decided by it.
"""

from typing import NamedTuple
from uuid import UUID

NO_GENERATION = -1
"""The generation of a commit by a consumer that is no member of a group (a "simple" consumer)."""

OwnedPartitions = tuple[tuple[UUID, tuple[int, ...]], ...]
"""Per topic which of its partitions a member says it has."""


class Protocol(NamedTuple):
    """One way of assigning partitions that a member offers, with its subscription in that way's own format."""

    name: str
    metadata: bytes


class MemberAssignment(NamedTuple):
    """What the leader of a classic group assigned to a member."""

    member_id: str
    assignment: bytes


class LeavingMember(NamedTuple):
    """One of the members that leave with a LeaveGroup."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class PartitionOffset(NamedTuple):
    """A position to be committed."""

    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class TopicOffsets(NamedTuple):
    """Positions to be committed in one topic."""

    topic: str
    topic_id: UUID | None
    partitions: list[PartitionOffset]


class JoinGroup(NamedTuple):
    """Become or stay a member of a classic group (JoinGroup 11). A rebalance timeout below 0 (v0) means the session timeout."""

    group_id: str
    member_id: str
    client_id: str
    client_host: str
    protocol_type: str
    protocols: tuple[Protocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    instance_id: str | None = None
    reason: str | None = None
    requires_known_member_id: bool = True
    """From v4 on a member without an id is given one and has to come back with it (KIP-394)."""
    supports_skipping_assignment: bool = True
    """From v9 on a leader that comes back learns that nothing has to be assigned (KIP-814)."""


class SyncGroup(NamedTuple):
    """Ask for the assignment; the leader brings it (SyncGroup 14)."""

    group_id: str
    member_id: str
    generation_id: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[MemberAssignment, ...] = ()


class Heartbeat(NamedTuple):
    """I am alive, is there a rebalance? (Heartbeat 12)."""

    group_id: str
    member_id: str
    generation_id: int
    instance_id: str | None = None


class LeaveGroup(NamedTuple):
    """Members leave (LeaveGroup 13); before v3 always exactly one."""

    group_id: str
    members: tuple[LeavingMember, ...]


class CommitOffsets(NamedTuple):
    """Remember positions (OffsetCommit 8). All topics and partitions in it exist."""

    group_id: str
    member_id: str
    generation_or_member_epoch: int
    topics: list[TopicOffsets]
    instance_id: str | None = None
    retention_ms: int | None = None
    """Only versions up to 4 can ask for it (KIP-211)."""
    understands_stale_epoch: bool = True
    """From v9 on a stale epoch (KIP-848) and a group that does not exist have errors of their own; before, both are ILLEGAL_GENERATION."""


class CommitPendingOffsets(NamedTuple):
    """Remember positions if the producer's transaction is committed (TxnOffsetCommit 28). All topics and partitions in it exist."""

    group_id: str
    member_id: str
    generation_or_member_epoch: int
    topics: list[TopicOffsets]
    instance_id: str | None = None


class DeleteOffsets(NamedTuple):
    """Forget positions (OffsetDelete 47)."""

    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...]


class DeleteGroup(NamedTuple):
    """Forget a group and its positions (one group of DeleteGroups 42)."""

    group_id: str


class ConsumerHeartbeat(NamedTuple):
    """The one request of the KIP-848 protocol (ConsumerGroupHeartbeat 68). None means "as before"."""

    group_id: str
    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: OwnedPartitions | None = None
    """What the member owns, by topic id."""
    requires_member_id: bool = True
    """From v1 on the member makes up its own id (KIP-1082); before, the coordinator does when it joins without one."""


GroupCommand = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | CommitOffsets | DeleteOffsets | DeleteGroup | ConsumerHeartbeat
