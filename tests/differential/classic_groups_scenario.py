"""Classic groups: members join, sync, beat, leave and are described; now and then with a wrong generation, name or protocol.

A JoinGroup is answered when everybody has joined. So a rebalance is one step: every member sends, on a connection of its own, and then all
answers are read. Everything else is answered at once.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.clients.group_requests import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    SYNC_GROUP,
    subscription,
)
from tests.differential.group_listing import GroupListing
from tests.differential.symbol import Symbol

TIMEOUT_MS = 60_000
"""Nobody's session ends during a run."""


@dataclass
class Member:
    """One member, as it knows itself."""

    number: int
    member_id: Symbol | str = ""
    instance: str | None = None
    metadata: bytes = b""

    @property
    def connection(self) -> str:
        return f"member{self.number}"


@dataclass
class Group:
    """One group with its members."""

    name: str
    generation: int = -1
    leader: Any = ""
    protocol: str = "range"
    members: list[Member] = field(default_factory=list)


class ClassicGroupsScenario(GroupListing):
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups, DeleteGroups, OffsetCommit of members."""

    name = "classic-groups"

    def prepare(self) -> None:
        self.create_topic(self.prefix + "topic", 3)
        self.groups = [Group(f"{self.prefix}{number}") for number in range(3)]
        self.count = 0

    def step(self) -> None:
        group = self.random.choice(self.groups)
        kinds = [self.enter, self.enter, self.rejoin, self.leave, self.beat, self.beat, self.join_wrongly, self.sync_again, self.commit,
                 self.describe, self.list_groups, self.delete]  # fmt: skip
        self.random.choice(kinds)(group)

    def join_fields(self, group: Group, member: Member, **other: object) -> dict[str, object]:
        fields: dict[str, object] = {
            "group_id": group.name,
            "session_timeout_ms": TIMEOUT_MS,
            "rebalance_timeout_ms": TIMEOUT_MS,
            "member_id": member.member_id,
            "group_instance_id": member.instance,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": member.metadata}, {"name": "roundrobin", "metadata": b""}],
            "reason": "differential",
        }
        return fields | other

    def identity(self, group: Group, member: Member) -> dict[str, object]:
        return {
            "group_id": self.mostly(group.name, "", "nobody", percent=95),
            "generation_id": self.mostly(group.generation, group.generation + 1, -1, 0, percent=85),
            "member_id": self.mostly(member.member_id, "", "nobody", percent=90),
            "group_instance_id": self.mostly(member.instance, "nobody", None, percent=93),
            "protocol_type": self.mostly("consumer", "connect", None, percent=95),
            "protocol_name": self.mostly(group.protocol, "roundrobin", None, percent=95),
        }

    def any_member(self, group: Group) -> Member:
        return self.random.choice(group.members) if group.members else Member(0, "nobody")

    def enter(self, group: Group) -> None:
        """A new member, and with it a new generation."""
        if len(group.members) >= 3:
            return self.rejoin(group)
        self.count += 1
        metadata = subscription(self.prefix + "topic") if self.chance(60) else b"\x00\x01"
        member = Member(self.count, instance=f"instance{self.count}" if self.chance(30) else None, metadata=metadata)
        version = self.version(JOIN_GROUP, 5 if member.instance else 4)
        if member.instance is None:
            first = self.ask(JOIN_GROUP, self.join_fields(group, member), version=version, connection=member.connection)
            member.member_id = first["member_id"]
        self.rebalance(group, [member, *group.members], version)
        return None

    def rejoin(self, group: Group) -> None:
        """The leader joins again with another subscription: a new generation for everybody."""
        leader = next((one for one in group.members if one.member_id == group.leader), None)
        if leader is None:
            return self.describe(group)
        leader.metadata += b"\x00"
        self.rebalance(group, [leader, *(one for one in group.members if one is not leader)], self.version(JOIN_GROUP, 5))
        return None

    def rebalance(self, group: Group, members: list[Member], version: int) -> None:
        """The first one starts it; the others hear of it and come."""
        sent: list[tuple[Member, dict[str, object]]] = []
        for member in members:
            if sent:
                self.hear_of_it(group, member)
            fields = self.join_fields(group, member)
            self.send(JOIN_GROUP, fields, version=version, connection=member.connection)
            sent.append((member, fields))
        answers = [(one, self.receive(JOIN_GROUP, fields, version=version, connection=one.connection)) for one, fields in sent]
        for member, answer in answers:
            if answer["error_code"] == "none":
                group.generation, group.leader, group.protocol = answer["generation_id"], answer["leader"], answer["protocol_name"]
                member.member_id = answer["member_id"]
        group.members = [one for one, answer in answers if answer["error_code"] == "none"]
        self.sync(group)

    def hear_of_it(self, group: Group, member: Member) -> None:
        """Both brokers have the request of the one before, on another connection, when they tell this member to join again."""
        fields = {
            "group_id": group.name,
            "generation_id": group.generation,
            "member_id": member.member_id,
            "group_instance_id": member.instance,
        }
        for side in (self.pair.kafka, self.pair.ours):
            for _ in range(2000):
                side.send(member.connection, HEARTBEAT, 3, fields)
                if side.receive(member.connection, HEARTBEAT, 3).error_code != 0:
                    break

    def sync(self, group: Group) -> None:
        """The leader brings the assignment first, so that nobody waits."""
        version = self.version(SYNC_GROUP, 3)
        given = [{"member_id": one.member_id, "assignment": b"for %d" % one.number} for one in group.members if self.chance(90)]
        for member in sorted(group.members, key=lambda one: one.member_id != group.leader):
            fields = {
                "group_id": group.name,
                "generation_id": group.generation,
                "member_id": member.member_id,
                "group_instance_id": member.instance,
                "protocol_type": "consumer",
                "protocol_name": group.protocol,
                "assignments": given if member.member_id == group.leader else [],
            }
            self.ask(SYNC_GROUP, fields, version=version, connection=member.connection)

    def sync_again(self, group: Group) -> None:
        """Of a stable group: everybody gets what he got."""
        if group.members:
            self.ask(SYNC_GROUP, self.identity(group, self.any_member(group)) | {"assignments": []})

    def beat(self, group: Group) -> None:
        self.ask(HEARTBEAT, self.identity(group, self.any_member(group)))

    def join_wrongly(self, group: Group) -> None:
        """What is refused at once."""
        member = Member(0, "nobody")
        wrong: list[dict[str, object]] = [
            {"group_id": ""},
            {"session_timeout_ms": 1},
            {"session_timeout_ms": 1 << 30},
            {"member_id": "nobody"},
            {"member_id": "nobody", "group_instance_id": "nobody"},
        ]
        if group.members:
            wrong += [
                {"protocol_type": "connect"},
                {"protocols": [{"name": "sticky", "metadata": b""}]},
                {"protocols": [], "member_id": ""},
                {"protocol_type": "", "member_id": ""},
            ]
            static = [one for one in group.members if one.instance]
            if static:
                wrong += [{"member_id": "nobody", "group_instance_id": static[0].instance}]
        self.ask(JOIN_GROUP, self.join_fields(group, member, **self.random.choice(wrong)), connection="wrong")

    def leave(self, group: Group) -> None:
        version = self.version(LEAVE_GROUP)
        leaving = self.leaving(group, at_once=1 if version < 3 else 3)
        entries: list[dict[str, object]] = []
        for member in leaving:
            by_instance = member.instance is not None and self.chance(50)
            entries.append({"member_id": "" if by_instance else member.member_id, "group_instance_id": member.instance})
        if version >= 3 and self.chance(25):
            entries.append(self.random.choice([
                {"member_id": "nobody", "group_instance_id": None},
                {"member_id": "", "group_instance_id": None},
                {"member_id": "", "group_instance_id": "nobody"},
                {"member_id": "nobody", "group_instance_id": self.any_member(group).instance},
            ]))  # fmt: skip
        alone = leaving[0].member_id if leaving else "nobody"
        self.ask(LEAVE_GROUP, {"group_id": self.mostly(group.name, "nobody", ""), "member_id": alone, "members": entries}, version=version)
        self.after_leaving(group)

    def leaving(self, group: Group, *, at_once: int) -> list[Member]:
        """Who goes. If the leader does, at most one may stay: which of several Kafka makes the next leader is a matter of hashes."""
        chosen = [one for one in group.members if self.chance(50)][:at_once]
        if any(one.member_id == group.leader for one in chosen) and len(group.members) > len(chosen) + 1:
            return group.members if at_once >= len(group.members) else []
        return chosen

    def after_leaving(self, group: Group) -> None:
        """Those who are still there, by their own heartbeats, begin a new generation."""
        left = []
        for member in group.members:
            fields = {
                "group_id": group.name,
                "generation_id": group.generation,
                "member_id": member.member_id,
                "group_instance_id": member.instance,
            }
            if self.ask(HEARTBEAT, fields, version=4)["error_code"] in {"none", "rebalance_in_progress"}:
                left.append(member)
        if len(left) < len(group.members):
            group.members = left
            if left:
                self.rebalance(group, left, self.version(JOIN_GROUP, 5))

    def commit(self, group: Group) -> None:
        who = self.identity(group, self.any_member(group))
        partitions = [
            {"partition_index": self.mostly(0, 1, 9), "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": "m"}
        ]
        fields = who | {
            "generation_id_or_member_epoch": who["generation_id"],
            "topics": [self.topic(self.prefix + "topic") | {"partitions": partitions}],
        }
        self.ask(OFFSET_COMMIT, fields)

    def describe(self, group: Group) -> None:
        groups = [self.mostly(group.name, "", "nobody") for _ in range(self.mostly(1, 2))]
        self.ask(DESCRIBE_GROUPS, {"groups": groups, "include_authorized_operations": self.chance(50)})

    def list_groups(self, _: Group) -> None:
        self.ask_for_groups(["Stable", "empty", "Empty", "Dead", "nonsense", "PreparingRebalance"])

    def delete(self, group: Group) -> None:
        names = [self.mostly(group.name, "", "nobody") for _ in range(self.mostly(1, 2))]
        self.ask(DELETE_GROUPS, {"groups_names": names})
