"""A generation of a classic group: its state, its members, what they agreed on, and the record that remembers it.

A generation is written when the leader has brought its assignment, and when a group became empty: a rebalance that is under way is not
remembered, its members join again after a restart.
"""

from collections.abc import Iterable
from typing import Final

from millstream.coordinator_shard import CoordinatorRecord, Fields
from millstream.groups.classic.answers import sync_answer
from millstream.groups.classic.member import ClassicMember
from millstream.groups.classic.records import GroupMetadata, group_metadata_record
from millstream.groups.classic.roster import ClassicRoster
from millstream.groups.commands import Protocol
from millstream.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE, subscribed_topics

EMPTY: Final = "Empty"
PREPARING_REBALANCE: Final = "PreparingRebalance"
COMPLETING_REBALANCE: Final = "CompletingRebalance"
STABLE: Final = "Stable"
DEAD: Final = "Dead"


class ClassicGeneration:
    """What is durable of a classic group."""

    __slots__ = (
        "generation_id",
        "group_id",
        "protocol_name",
        "protocol_type",
        "roster",
        "state",
        "state_timestamp_ms",
        "subscribed_topics",
        "was_empty",
    )

    def __init__(self, group_id: str, *, now_ms: int) -> None:
        self.group_id = group_id
        self.state: str = EMPTY
        self.was_empty = False
        """Whether the group was empty before it entered its state."""
        self.state_timestamp_ms = now_ms
        self.generation_id = 0
        self.protocol_name: str | None = None
        self.protocol_type: str | None = None
        """What the members do; None if there never were any."""
        self.roster = ClassicRoster()
        self.subscribed_topics: frozenset[str] | None = None
        """What the consumers read; None where that cannot be known."""

    def enter(self, state: str, now_ms: int) -> None:
        """Go over to a state."""
        self.was_empty = self.state == EMPTY
        self.state = state
        self.state_timestamp_ms = now_ms

    def begin_next(self) -> None:
        """The next generation, of the members that are there now."""
        self.generation_id += 1
        self.protocol_name = self.roster.choose_protocol() if len(self.roster) else None
        self.look_up_subscribed_topics()

    def record(self) -> CoordinatorRecord:
        """The generation as it is now."""
        members = tuple(member.to_record(self.protocol_name) for member in self.roster) if self.protocol_name is not None else ()
        metadata = GroupMetadata(
            self.protocol_type or "", self.generation_id, self.protocol_name, self.roster.leader, self.state_timestamp_ms, members
        )
        return group_metadata_record(self.group_id, metadata)

    def restore(self, metadata: GroupMetadata) -> None:
        """Become the generation that a record remembers."""
        self.protocol_type = metadata.protocol_type or None
        self.generation_id = metadata.generation_id
        self.protocol_name = metadata.protocol_name
        self.state_timestamp_ms = metadata.state_timestamp_ms
        self.roster = ClassicRoster()
        by_id = {member.member_id: member for member in metadata.members}
        for record in {member.instance_id or member.member_id: member for member in by_id.values()}.values():
            self.roster.add(ClassicMember.restored(record, protocol_name=metadata.protocol_name or ""))
        if metadata.leader is not None and metadata.leader in self.roster:
            self.roster.leader = metadata.leader
        self.state = STABLE if metadata.members else EMPTY
        self.look_up_subscribed_topics()

    def adopt(self, members: Iterable[ClassicMember], *, generation_id: int, now_ms: int) -> None:
        """Become the generation of these consumers, who were members of a KIP-848 group and have a protocol in common."""
        self.protocol_type = CONSUMER_PROTOCOL_TYPE
        self.generation_id = generation_id
        self.state, self.state_timestamp_ms = STABLE, now_ms
        for member in members:
            self.roster.add(member)
        self.protocol_name = self.roster.choose_protocol()
        self.look_up_subscribed_topics()

    def look_up_subscribed_topics(self) -> None:
        """Read the subscriptions of the members, if they are consumers."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            self.subscribed_topics = None
        elif self.protocol_name is None or not len(self.roster):
            self.subscribed_topics = None if len(self.roster) else frozenset()
        else:
            found = [subscribed_topics(metadata) for metadata in {member.metadata(self.protocol_name) for member in self.roster}]
            known = [topics for topics in found if topics is not None]
            self.subscribed_topics = frozenset().union(*known) if len(known) == len(found) else None

    def can_agree_with(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether a member that offers these protocols can join."""
        if self.state == EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and self.roster.can_agree_with(protocols)

    def joined_answer(self, member: ClassicMember, *, is_assignment_skipped: bool = False) -> Fields:
        """The answer to its JoinGroup; the leader is also shown the members."""
        assert self.protocol_name is not None
        members: list[Fields] = []
        if member.member_id == self.roster.leader:
            members = [
                {"member_id": other.member_id, "group_instance_id": other.instance_id, "metadata": other.metadata(self.protocol_name)}
                for other in self.roster
            ]
        return {
            "error_code": 0,
            "generation_id": self.generation_id,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol_name,
            "leader": self.roster.leader or "",
            "skip_assignment": is_assignment_skipped,
            "member_id": member.member_id,
            "members": members,
        }

    def assigned_answer(self, member: ClassicMember) -> Fields:
        """The answer to its SyncGroup."""
        return sync_answer(0, protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment)

    def describe(self) -> Fields:
        """As DescribeGroups shows it; protocol and subscriptions only while they are in force."""
        protocol_name = self.protocol_name if self.state == STABLE else None
        return {
            "group_state": self.state,
            "protocol_type": self.protocol_type or "",
            "protocol_data": protocol_name or "",
            "members": [member.describe(protocol_name) for member in self.roster],
        }
