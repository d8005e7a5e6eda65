"""What every kind of group offers to its shard, which keeps them by id.

A group is a pure machine. It is changed by commands, by time (`tick`), by topics that change, and, while the log is replayed, by records;
what it decides comes back as an `Outcome`. `check_...` raises the `KafkaError` that the client gets and returns None when all is well.

Deadlines: `next_deadline_ms` may be earlier than anything really due (a heartbeat only moves deadlines away, so a group need not look for
the earliest one each time), but never later. A `tick` that finds nothing due returns an empty outcome and computes the bound anew.
"""

from typing import Protocol

from millstream.coordinator_shard import CoordinatorRecord, Fields, Outcome, Waiter
from millstream.groups.commands import CommitOffsets, Heartbeat, JoinGroup, LeaveGroup, SyncGroup

CLASSIC = "classic"
CONSUMER = "consumer"


class Group(Protocol):
    """A group of either kind."""

    group_id: str

    @property
    def group_type(self) -> str:
        """`CLASSIC` or `CONSUMER`, as ListGroups spells it in lower case."""

    @property
    def protocol_type(self) -> str:
        """What the members do: "consumer", "connect" ...; empty if there never were any."""

    @property
    def state(self) -> str:
        """Kafka's name of the state, such as "Stable"."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no members: the group may be deleted or turned into one of the other kind."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic: its offsets then neither expire nor may be deleted."""

    def join(self, command: JoinGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Let a member of the classic protocol join."""

    def sync(self, command: SyncGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Give a member of the classic protocol its assignment."""

    def heartbeat(self, command: Heartbeat, *, now_ms: int) -> Fields:
        """A member of the classic protocol lives."""

    def leave(self, command: LeaveGroup, waiter: Waiter, *, now_ms: int) -> Outcome:
        """Remove members, as those of the classic protocol and tools do."""

    def check_commit(self, command: CommitOffsets, *, now_ms: int) -> None:
        """Refuse commits of whoever may not commit; where a commit is also a sign of life, take it as one."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse reads by a member that was left behind (only KIP-848 members say who they are; None and -1 are always fine)."""

    def check_offset_deletion(self) -> None:
        """Refuse the deletion of single offsets."""

    def check_deletion(self) -> None:
        """Refuse the deletion of the whole group."""

    def expiry_base_ms(self, commit_timestamp_ms: int) -> int | None:
        """From when on the retention of an offset counts that was committed then; None while offsets of this group do not expire."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """Records that delete everything durable of the group except its offsets."""

    def describe(self) -> Fields:
        """The group as DescribeGroups shows it, without `group_id` and error fields."""

    def loaded(self, now_ms: int) -> Outcome:
        """The replay is over: start the timers."""

    def unloaded(self) -> Outcome:
        """Answer every waiter with NOT_COORDINATOR; the group is not used afterwards."""

    def tick(self, now_ms: int) -> Outcome:
        """Do what is due."""

    def next_deadline_ms(self) -> int | None:
        """When to tick next, or earlier; None if nothing can become due."""
