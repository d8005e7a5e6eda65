"""KIP-848 groups: members beat, take over what they are assigned or do not, change their minds, and are described.

Which member gets which partition is compared where Kafka's assignors leave it to nothing arbitrary: one topic and two members with the
uniform assignor, or equal subscriptions with the range assignor. Beyond that the uniform one goes by the order of hash tables.
"""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.clients.group_requests import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
    subscription,
)
from tests.differential.group_listing import GroupListing

LEAVE, LEAVE_FOR_A_WHILE = -1, -2
TIMEOUT_MS = 60_000


@dataclass
class Member:
    """One member, as it knows itself."""

    member_id: str
    instance: str | None
    topics: list[str]
    epoch: int = 0
    owned: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Group:
    """One group with its members."""

    name: str
    topics: list[str]
    assignor: str | None
    members: list[Member] = field(default_factory=list)


class AwaitsTopics(GroupListing):
    """A scenario whose topics are assigned by the coordinator, which hears of them after the rest of Kafka's broker has."""

    count: int
    """Of names that were used, so that each is used once."""

    def await_topics(self) -> None:
        """Until Kafka's coordinator assigns all partitions that there are, in a group that is thrown away."""
        wanted = sum(self.partitions.values())
        for side in (self.pair.kafka, self.pair.ours):
            self.count += 1
            for attempt in range(500):
                fields = {
                    "group_id": f"d-probe-{self.seed}-{self.count}-{attempt}",
                    "member_id": "probe",
                    "member_epoch": 0,
                    "rebalance_timeout_ms": TIMEOUT_MS,
                    "subscribed_topic_names": list(self.partitions),
                    "topic_partitions": [],
                }
                side.send("probe", CONSUMER_GROUP_HEARTBEAT, 1, fields)
                answer = side.receive("probe", CONSUMER_GROUP_HEARTBEAT, 1)
                side.send("probe", CONSUMER_GROUP_HEARTBEAT, 1, fields | {"member_epoch": LEAVE})
                side.receive("probe", CONSUMER_GROUP_HEARTBEAT, 1)
                if answer.assignment and sum(len(one.partitions) for one in answer.assignment.topic_partitions) == wanted:
                    break


class ConsumerGroupsScenario(AwaitsTopics):
    """ConsumerGroupHeartbeat, ConsumerGroupDescribe, and what classic requests say to such a group."""

    name = "consumer-groups"

    def prepare(self) -> None:
        for number in range(3):
            self.create_topic(f"{self.prefix}t{number}", self.random.randint(1, 5))
        several = [*self.some(list(self.partitions)), self.prefix + "missing"]
        self.groups = [Group(f"{self.prefix}0", [f"{self.prefix}t0"], None), Group(f"{self.prefix}1", several, "range")]
        self.count = 0
        for _ in range(3):
            self.await_topics()

    def step(self) -> None:
        group = self.random.choice(self.groups)
        kinds = [
            *[self.enter, self.change, self.leave, self.commit, self.fetch, self.classic, self.list_groups, self.delete],
            *[self.beat] * 4,
            *[self.beat_wrongly] * 2,
            *[self.describe] * 2,
        ]
        self.random.choice(kinds)(group)

    def heartbeat(self, group: Group, member: Member, **other: object) -> Any:
        fields: dict[str, object] = {
            "group_id": group.name,
            "member_id": member.member_id,
            "member_epoch": member.epoch,
            "instance_id": member.instance,
            "rack_id": None,
            "rebalance_timeout_ms": -1,
            "subscribed_topic_names": None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": member.owned,
        }
        answer = self.ask(CONSUMER_GROUP_HEARTBEAT, fields | other)
        if answer["error_code"] == "unknown_server_error":
            # Kafka tripped, and what the group is there from now on is an accident.
            self.count += 1
            self.groups[self.groups.index(group)] = Group(f"{self.prefix}again{self.count}", group.topics, group.assignor)
        if answer["error_code"] == "none" and answer["member_epoch"] >= 0:
            member.epoch = answer["member_epoch"]
            if answer["assignment"] is not None and self.chance(85):
                member.owned = [
                    {"topic_id": one["topic_id"], "partitions": list(one["partitions"])} for one in answer["assignment"]["topic_partitions"]
                ]
        return answer

    def enter(self, group: Group) -> None:
        if len(group.members) >= (2 if group.assignor is None else 4):
            return self.beat(group)
        self.count += 1
        instance = f"instance{self.random.randrange(3)}" if self.chance(30) else None
        member = Member(f"member-{self.count}", instance, group.topics)
        assignor = self.mostly(group.assignor, "nonsense", percent=90)
        answer = self.heartbeat(
            group,
            member,
            rebalance_timeout_ms=TIMEOUT_MS,
            subscribed_topic_names=member.topics,
            server_assignor=assignor,
            topic_partitions=[],
        )
        if answer["error_code"] == "none":
            group.members = [one for one in group.members if one.instance is None or one.instance != instance]
            group.members.append(member)
        return None

    def any_member(self, group: Group) -> Member:
        return self.random.choice(group.members) if group.members else Member("nobody", None, [])

    def beat(self, group: Group) -> None:
        member = self.any_member(group)
        answer = self.heartbeat(group, member)
        if answer["error_code"] in {"unknown_member_id", "fenced_member_epoch"}:
            group.members = [one for one in group.members if one is not member]

    def beat_wrongly(self, group: Group) -> None:
        member = self.any_member(group)
        wrong: list[dict[str, object]] = [
            {"group_id": ""},
            {"member_id": ""},
            {"member_id": "nobody"},
            {"member_epoch": member.epoch + 1},
            {"member_epoch": member.epoch - 1},
            {"member_epoch": -3},
            {"member_epoch": 0, "topic_partitions": None},
            {"member_epoch": 0, "topic_partitions": [], "rebalance_timeout_ms": -1},
            {"member_epoch": 0, "topic_partitions": [], "rebalance_timeout_ms": TIMEOUT_MS, "subscribed_topic_names": None},
            {"instance_id": ""},
            {"instance_id": "nobody"},
            {"rack_id": ""},
            {"server_assignor": ""},
            {"server_assignor": "nonsense"},
            {"subscribed_topic_names": []},
            {"subscribed_topic_regex": "("},
            {"subscribed_topic_regex": ""},
            {"topic_partitions": [{"topic_id": UUID(int=9), "partitions": [1]}]},
            {"member_epoch": LEAVE_FOR_A_WHILE, "instance_id": None},
        ]
        self.heartbeat(group, Member(member.member_id, member.instance, [], member.epoch, member.owned), **self.random.choice(wrong))

    def change(self, group: Group) -> None:
        """Another subscription: of a member that is alone, so that all are equal again at once."""
        if len(group.members) == 1:
            group.topics = self.some(list(self.partitions), 1 if group.assignor is None else 3)
            self.heartbeat(group, group.members[0], subscribed_topic_names=group.topics)

    def leave(self, group: Group) -> None:
        if not group.members:
            return
        member = self.any_member(group)
        epoch = LEAVE_FOR_A_WHILE if member.instance and self.chance(50) else LEAVE
        answer = self.heartbeat(group, member, member_epoch=epoch)
        if answer["error_code"] == "none":
            group.members = [one for one in group.members if one is not member]

    def commit(self, group: Group) -> None:
        member = self.any_member(group)
        partitions = [
            {"partition_index": self.mostly(0, 1, 9), "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": "m"}
        ]
        fields = {
            "group_id": group.name,
            "generation_id_or_member_epoch": self.mostly(member.epoch, member.epoch + 1, member.epoch - 1, -1),
            "member_id": self.mostly(member.member_id, "", "nobody"),
            "group_instance_id": self.mostly(member.instance, "nobody", percent=95),
            "topics": [self.topic(self.random.choice(list(self.partitions))) | {"partitions": partitions}],
        }
        self.ask(OFFSET_COMMIT, fields)

    def fetch(self, group: Group) -> None:
        member = self.any_member(group)
        name = self.random.choice(list(self.partitions))
        wanted = {
            "group_id": self.mostly(group.name, "", "nobody"),
            "member_id": self.mostly(None, member.member_id, "nobody", percent=50),
            "member_epoch": self.mostly(-1, member.epoch, member.epoch + 1, percent=50),
            "topics": self.mostly([self.topic(name) | {"partition_indexes": [0, 1, 7]}], None),
        }
        self.ask(OFFSET_FETCH, {**wanted, "groups": [wanted], "require_stable": self.chance(50)}, version=self.version(OFFSET_FETCH, 2))

    def describe(self, group: Group) -> None:
        names = [self.mostly(group.name, "", "nobody") for _ in range(self.mostly(1, 2))]
        api_key, field_name = self.mostly((CONSUMER_GROUP_DESCRIBE, "group_ids"), (DESCRIBE_GROUPS, "groups"), percent=80)
        self.ask(api_key, {field_name: names, "include_authorized_operations": self.chance(50)})

    def classic(self, group: Group) -> None:
        """What the old requests say to members and strangers."""
        member = self.any_member(group)
        fields: dict[str, object] = {
            "group_id": group.name,
            "generation_id": member.epoch,
            "member_id": self.mostly(member.member_id, "nobody", "", percent=60),
            "group_instance_id": member.instance,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [],
            "session_timeout_ms": TIMEOUT_MS,
            "rebalance_timeout_ms": TIMEOUT_MS,
            "protocols": [{"name": "range", "metadata": subscription()}],
            "members": [{"member_id": "nobody", "group_instance_id": None}],
        }
        if group.members:
            # A stranger who joins moves the group to the other protocol; as a third member he would leave the uniform assignor a choice.
            joining = [] if group.assignor is None else [JOIN_GROUP]
            api_key = self.random.choice([HEARTBEAT, SYNC_GROUP, LEAVE_GROUP, *joining])
            if api_key == JOIN_GROUP:
                fields |= {"member_id": "nobody"}
            if api_key == LEAVE_GROUP:
                fields |= {"member_id": "nobody"}
            self.ask(api_key, fields, connection="classic")

    def list_groups(self, _: Group) -> None:
        self.ask_for_groups(["Stable", "Assigning", "reconciling", "Empty", "Dead", "nonsense"])

    def delete(self, group: Group) -> None:
        self.ask(DELETE_GROUPS, {"groups_names": [self.mostly(group.name, "", "nobody")]})
