"""The members of a classic group: who belongs to it, who leads, and which protocol they can agree on.

Always true: a `group.instance.id` has exactly one member; the leader is a member, or there is none; a member id is either a member or
pending (it was given to a client that has not come back with it, KIP-394), never both. How often each protocol is offered is counted, so
that a joining member is compared with all others at once.
"""

from collections import Counter
from collections.abc import Collection, Iterator

from millstream.errors import FencedInstanceId, UnknownMemberId
from millstream.groups.classic.member import ClassicMember
from millstream.groups.commands import Protocol


class ClassicRoster:
    """Members, pending members and the leader."""

    __slots__ = ("_members", "_offered", "_static", "leader", "pending")

    def __init__(self) -> None:
        self._members: dict[str, ClassicMember] = {}
        self._static: dict[str, str] = {}
        self._offered: Counter[str] = Counter()
        self.leader: str | None = None
        self.pending: dict[str, int] = {}
        """Ids that were given out, and until when they are good."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(self._members.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def get(self, member_id: str) -> ClassicMember | None:
        """The member of that id."""
        return self._members.get(member_id)

    def member_of_instance(self, instance_id: str) -> ClassicMember | None:
        """The member that has this `group.instance.id`."""
        member_id = self._static.get(instance_id)
        return None if member_id is None else self._members[member_id]

    def check(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member that a request comes from; whoever has lost its `group.instance.id` to another is fenced."""
        if instance_id is not None:
            owner = self._static.get(instance_id)
            if owner is None:
                raise UnknownMemberId(f"no member has the instance id {instance_id}")
            if owner != member_id:
                raise FencedInstanceId(f"the instance id {instance_id} belongs to another member")
        member = self._members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"there is no member {member_id}")
        return member

    def add(self, member: ClassicMember) -> None:
        """A new member; the first one leads."""
        assert member.member_id not in self._members
        if member.instance_id is not None:
            assert member.instance_id not in self._static
            self._static[member.instance_id] = member.member_id
        self._members[member.member_id] = member
        self._offered.update(_names(member.protocols))
        self.pending.pop(member.member_id, None)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """A member, or a pending one, goes; the next one leads if it was the leader."""
        self.pending.pop(member_id, None)
        member = self._members.pop(member_id, None)
        if member is None:
            return
        self._offered -= Counter(_names(member.protocols))
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._members), None)

    def rename(self, member: ClassicMember, *, member_id: str) -> None:
        """A static member has come back and goes on under a new id, in the same place."""
        assert member.instance_id is not None
        if self.leader == member.member_id:
            self.leader = member_id
        self._members = {(member_id if key == member.member_id else key): value for key, value in self._members.items()}
        self._static[member.instance_id] = member_id
        member.member_id = member_id

    def offer(self, member: ClassicMember, protocols: tuple[Protocol, ...]) -> None:
        """A member changes what it offers."""
        former, member.protocols = member.protocols, protocols
        if former != protocols and (former_names := _names(former)) != (names := _names(protocols)):
            self._offered -= Counter(former_names)
            self._offered.update(names)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one of those who joined; False if none did."""
        leader = self._members.get(self.leader or "")
        if leader is None or not leader.is_awaiting_join:
            joined = next((member.member_id for member in self if member.is_awaiting_join), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def can_agree_with(self, protocols: tuple[Protocol, ...]) -> bool:
        """Whether one of the protocols is offered by all members."""
        return any(self._offered[protocol.name] == len(self._members) for protocol in protocols)

    def choose_protocol(self) -> str:
        """Each member votes for the first of its protocols that all have; the one with most votes wins."""
        candidates = {name for name, count in self._offered.items() if count == len(self._members)}
        votes = Counter(member.vote(candidates) for member in self)
        return votes.most_common(1)[0][0]

    @property
    def have_all_joined(self) -> bool:
        """Whether all members wait in a JoinGroup and no other is expected."""
        if self.pending:
            return False
        for member in self._members.values():  # noqa: SIM110  # asked at every JoinGroup: `all` takes twice as long
            if member.join_waiter is None:
                return False
        return True

    @property
    def awaiting_join_count(self) -> int:
        """How many members wait in a JoinGroup."""
        return sum(member.join_waiter is not None for member in self._members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that a member asked for."""
        return max((member.rebalance_timeout_ms for member in self._members.values()), default=0)


def _names(protocols: tuple[Protocol, ...]) -> Collection[str]:
    return {protocol.name for protocol in protocols}
