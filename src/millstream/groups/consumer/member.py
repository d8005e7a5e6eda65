"""A member of a KIP-848 group: what its two records say, and its timers.

The timers are not durable. A member whose session ends is fenced; so is one that has to revoke partitions and has not done it within
the rebalance timeout that it asked for. A member of the classic protocol has as long to join again, and then to ask for its assignment.
"""

from typing import Final, NamedTuple

from millstream.groups.commands import ConsumerHeartbeat
from millstream.groups.consumer.reconciliation import MemberState
from millstream.groups.consumer.records import Assignment, CurrentAssignment, MemberMetadata

JOIN_EPOCH: Final = 0
STATIC_LEAVE_EPOCH: Final = -2
"""A static member that comes back within its session and keeps its partitions until then."""

NOT_ASSIGNED: Final = CurrentAssignment(0, 0, int(MemberState.STABLE), (), ())
UNKNOWN_MEMBER: Final = MemberMetadata(None, None, "", "", (), "", -1, None)
"""What is known of a member before its first heartbeat is read. Kafka's sign for "no expression" is an empty one."""


class ConsumerMember:
    """One member."""

    __slots__ = (
        "current",
        "join_deadline_ms",
        "member_id",
        "metadata",
        "rebalance_deadline_ms",
        "reported_deadline_ms",
        "session_deadline_ms",
        "sync_deadline_ms",
    )

    def __init__(self, member_id: str, metadata: MemberMetadata = UNKNOWN_MEMBER) -> None:
        self.member_id = member_id
        self.metadata = metadata
        self.current = NOT_ASSIGNED
        self.session_deadline_ms: int | None = None
        self.reported_deadline_ms: int | None = None
        """The end of a session that `silence` has reported."""
        self.rebalance_deadline_ms: int | None = None
        self.join_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has everything that the target of that epoch gives it."""
        return self.current.state == MemberState.STABLE and self.current.member_epoch == epoch

    def deadline_ms(self) -> int | None:
        """When it is fenced if nothing is heard of it."""
        deadlines = (self.session_deadline_ms, self.rebalance_deadline_ms, self.join_deadline_ms, self.sync_deadline_ms)
        return min((deadline_ms for deadline_ms in deadlines if deadline_ms is not None), default=None)

    def forget_classic_deadlines(self) -> None:
        """It speaks the new protocol by now: no JoinGroup or SyncGroup of it is expected."""
        self.join_deadline_ms = self.sync_deadline_ms = None


class MigratedMember(NamedTuple):
    """A member of a classic group as the KIP-848 group remembers it that its group becomes."""

    member_id: str
    metadata: MemberMetadata
    assigned: Assignment
    """What its leader gave it last."""
    held: Assignment
    """What it has: also what it had when it joined, if its leader gave that to no other. It may not have heard of it yet."""


def updated(metadata: MemberMetadata, command: ConsumerHeartbeat) -> MemberMetadata:
    """The metadata after a heartbeat, of which every field may say "as before"."""
    names = command.subscribed_topic_names
    return MemberMetadata(
        instance_id=metadata.instance_id if command.instance_id is None else command.instance_id,
        rack_id=metadata.rack_id if command.rack_id is None else command.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names if names is None else tuple(sorted(set(names))),
        subscribed_topic_regex=metadata.subscribed_topic_regex
        if command.subscribed_topic_regex is None
        else command.subscribed_topic_regex,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms if command.rebalance_timeout_ms < 0 else command.rebalance_timeout_ms,
        server_assignor=metadata.server_assignor if command.server_assignor is None else command.server_assignor,
        # A member that speaks the new protocol is not a classic one any more.
        classic=None,
    )
