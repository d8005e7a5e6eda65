"""Groups that move between the two protocols: instances come and go, each with the protocol it likes today (KIP-848, online migration).

All members have an instance id and every member of the new protocol asks for the range assignor, so that nothing is left to the order of
random ids; one of them at a time speaks the classic protocol, since who leads a group that has become classic is left to that order, too. A
classic group is only converted while it is stable: what becomes of a rebalance under way is where Kafka loses something.
"""

from dataclasses import dataclass, field
from typing import Any

from millstream.groups.consumer_protocol import encode_assignment
from tests.clients.group_requests import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
    subscription,
)
from tests.differential.consumer_groups_scenario import LEAVE, LEAVE_FOR_A_WHILE, TIMEOUT_MS, AwaitsTopics

PARTITIONS = 5


@dataclass
class Member:
    """One instance, as it knows itself."""

    instance: str
    is_classic: bool = True
    member_id: Any = ""
    epoch: int = 0
    """Or the generation."""
    owned: list[dict[str, Any]] = field(default_factory=list)


class MigratingGroupsScenario(AwaitsTopics):
    """All requests of both protocols to one group."""

    name = "migrating-groups"

    def prepare(self) -> None:
        self.topic_name = self.prefix + "t"
        self.create_topic(self.topic_name, PARTITIONS)
        self.group = self.prefix + "g"
        self.count = self.joins = 0
        self.members: list[Member] = []
        self.await_topics()

    def step(self) -> None:
        if self.is_classic_group():
            self.random.choice([self.rebalance, self.beat, self.enter_new, self.enter_new, self.commit, self.fetch, self.remove])()
        else:
            kinds = [self.enter_new, self.enter_classic, self.join, self.join, self.commit, self.fetch, self.describe, self.remove]
            self.random.choice([*kinds, *[self.beat] * 5, *[self.leave] * 2])()

    def is_classic_group(self) -> bool:
        """Also brings a group that has just become classic to rest."""
        described = self.ask(DESCRIBE_GROUPS, {"groups": [self.group]}, version=6)["groups"][0]
        if described["error_code"] != "none":
            return False
        if described["group_state"] in ("PreparingRebalance", "CompletingRebalance"):
            self.rebalance()
        return bool(described["group_state"] != "Empty")

    # --- members ---

    def identity(self, member: Member, percent: int = 95) -> dict[str, object]:
        return {
            "group_id": self.group,
            "generation_id": self.mostly(member.epoch, member.epoch + 1, member.epoch - 1, -1, percent=percent),
            "member_id": self.mostly(member.member_id, "nobody", percent=percent),
            "group_instance_id": self.mostly(member.instance, "nobody", None, percent=percent),
            "protocol_type": self.mostly("consumer", "connect", percent=percent),
            "protocol_name": self.mostly("range", "roundrobin", percent=percent),
            "assignments": [],
        }

    def place(self) -> Member:
        """An instance that is to be started, whether it runs already or not."""
        name = f"i{self.random.randrange(3)}"
        return next((one for one in self.members if one.instance == name), Member(name))

    def any_member(self) -> Member:
        return self.random.choice(self.members) if self.members else Member("i0", member_id="nobody")

    def enter_new(self) -> None:
        """An instance is started with the new protocol, which may take the whole group along."""
        former = self.place()
        if not former.is_classic and former in self.members and self.chance(70):
            self.heartbeat(former, member_epoch=LEAVE_FOR_A_WHILE)
        self.count += 1
        member = Member(former.instance, is_classic=False, member_id=f"new-{self.count}")
        topics = {"subscribed_topic_names": [self.topic_name], "topic_partitions": [], "server_assignor": "range"}
        if self.heartbeat(member, rebalance_timeout_ms=TIMEOUT_MS, **topics)["error_code"] == "none":
            self.members = [one for one in self.members if one is not former] + [member]

    def enter_classic(self) -> None:
        """An instance is started with the classic protocol in a group of the new one."""
        new = [one for one in self.members if not one.is_classic]
        if not new or not self.settles(new):
            return
        former = next((one for one in self.members if one.is_classic), None) or self.place()
        member = Member(former.instance)
        if self.join(member)["error_code"] == "none":
            self.members = [one for one in self.members if one is not former] + [member]

    def settles(self, new: list[Member]) -> bool:
        """Whether the last one, who may take the group along, has all it is to have: otherwise Kafka's classic group leaves some unread."""
        if len(new) > 1:
            return True
        return new[0].epoch >= 0 and all(self.heartbeat(new[0])["error_code"] == "none" for _ in range(2))

    def join(self, member: Member | None = None) -> Any:
        member = member or self.any_member()
        if not member.is_classic or not self.members:
            # A stranger who is refused by an empty group takes it along in Kafka.
            return self.beat(member)
        fields = self.join_fields(member)
        answer = self.ask(JOIN_GROUP, fields, version=self.version(JOIN_GROUP, 5), connection=member.instance)
        if answer["error_code"] == "none":
            member.member_id, member.epoch = answer["member_id"], answer["generation_id"]
            if self.chance(80) and answer["leader"] == "":
                self.ask(SYNC_GROUP, self.identity(member), version=self.version(SYNC_GROUP, 3), connection=member.instance)
        return answer

    def join_fields(self, member: Member) -> dict[str, object]:
        return {
            "group_id": self.group,
            "session_timeout_ms": TIMEOUT_MS,
            "rebalance_timeout_ms": TIMEOUT_MS,
            "member_id": member.member_id,
            "group_instance_id": member.instance,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(self.topic_name) + bytes(self.joins)}],
        }

    def heartbeat(self, member: Member, **other: object) -> Any:
        fields: dict[str, object] = {
            "group_id": self.group,
            "member_id": member.member_id,
            "member_epoch": member.epoch,
            "instance_id": member.instance,
            "rebalance_timeout_ms": -1,
            "subscribed_topic_names": None,
            "topic_partitions": member.owned,
        }
        answer = self.ask(CONSUMER_GROUP_HEARTBEAT, fields | other, version=1, connection=member.instance)
        if answer["error_code"] == "none" and answer["member_epoch"] >= 0:
            member.epoch = answer["member_epoch"]
            if answer["assignment"] is not None:
                member.owned = [
                    {"topic_id": one["topic_id"], "partitions": list(one["partitions"])} for one in answer["assignment"]["topic_partitions"]
                ]
        return answer

    def beat(self, member: Member | None = None) -> Any:
        member = member or self.any_member()
        if not member.is_classic:
            return self.heartbeat(member)
        api_key = self.random.choice([HEARTBEAT, HEARTBEAT, SYNC_GROUP])
        return self.ask(api_key, self.identity(member), version=self.version(api_key, 3), connection=member.instance)

    def leave(self) -> None:
        new = [one for one in self.members if not one.is_classic]
        if new:
            member = self.random.choice(new)
            epoch = self.mostly(LEAVE, LEAVE_FOR_A_WHILE, percent=70)
            if self.heartbeat(member, member_epoch=epoch)["error_code"] == "none":
                member.epoch = epoch
            if member.epoch == LEAVE:
                self.members.remove(member)

    def remove(self) -> None:
        """An operator removes one or two instances."""
        names = [f"i{number}" for number in self.random.sample(range(4), 2)][: self.mostly(1, 2, percent=60)]
        gone = [{"member_id": "", "group_instance_id": name} for name in names]
        self.ask(LEAVE_GROUP, {"group_id": self.group, "members": gone}, version=self.version(LEAVE_GROUP, 3))
        self.members = [one for one in self.members if one.instance not in names]

    def rebalance(self) -> None:
        """The only member of a classic group joins, which makes it a new generation, and gives itself everything."""
        (member,) = self.members
        self.joins += 1
        if self.join(member)["error_code"] == "none":
            everything = encode_assignment(((self.topic_name, tuple(range(PARTITIONS))),), version=1)
            fields = self.identity(member, percent=100) | {"assignments": [{"member_id": member.member_id, "assignment": everything}]}
            self.ask(SYNC_GROUP, fields, version=self.version(SYNC_GROUP, 3), connection=member.instance)

    # --- what others ask ---

    def commit(self) -> None:
        member = self.any_member()
        partitions = [{"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": "m"}]
        fields = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.mostly(member.epoch, member.epoch + 1, member.epoch - 1, -1),
            "member_id": self.mostly(member.member_id, "", "nobody"),
            "group_instance_id": self.mostly(member.instance, None, "nobody", percent=80),
            "topics": [self.topic(self.topic_name) | {"partitions": partitions}],
        }
        self.ask(OFFSET_COMMIT, fields)

    def fetch(self) -> None:
        member = self.any_member()
        wanted = {
            "group_id": self.group,
            "member_id": self.mostly(None, member.member_id, "nobody", percent=50),
            "member_epoch": self.mostly(-1, member.epoch, member.epoch + 1, percent=50),
            "topics": [self.topic(self.topic_name) | {"partition_indexes": [0, 7]}],
        }
        self.ask(OFFSET_FETCH, {**wanted, "groups": [wanted]}, version=self.version(OFFSET_FETCH, 8))

    def describe(self) -> None:
        self.ask(CONSUMER_GROUP_DESCRIBE, {"group_ids": [self.group], "include_authorized_operations": False})
