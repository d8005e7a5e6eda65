"""Offsets in transactions: committed by producers in groups with and without members, looked at, deleted, made real and dropped."""

from typing import Any, Final

from tests.clients.group_requests import (
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    JOIN_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
    subscription,
)
from tests.connection import DELETE_TOPICS
from tests.differential.transactions_scenario import ADD_OFFSETS_TO_TXN, END_TXN, NONE, TransactionsScenario

TXN_OFFSET_COMMIT: Final = 28
TIMEOUT_MS: Final = 60_000
NOBODY: Final[dict[str, Any]] = {"member_id": "", "generation_id": -1, "group_instance_id": None}


class PendingOffsetsScenario(TransactionsScenario):
    """TxnOffsetCommit in transactions that are open or not, and what OffsetFetch, OffsetDelete and DeleteGroups say to what it left."""

    name = "pending-offsets"

    def prepare(self) -> None:
        super().prepare()
        self.groups: dict[str, dict[str, Any]] = {f"{self.prefix}{number}": NOBODY for number in range(2)}
        for group in self.groups:
            self.commit_well(group)
        self.join_classic(self.prefix + "classic")
        self.join_consumer(self.prefix + "consumer")

    def commit_well(self, group: str) -> None:
        self.ask(OFFSET_COMMIT, self.commit_fields(group, [(f"{self.prefix}t0", [0])]), version=9)

    def commit_fields(self, group: str, topics: list[tuple[str, list[int]]]) -> dict[str, object]:
        member = self.groups[group]
        return {
            "group_id": group,
            "generation_id_or_member_epoch": member["generation_id"],
            "member_id": member["member_id"],
            "group_instance_id": member["group_instance_id"],
            "topics": [{"name": name, "topic_id": self.topic_ids[name], "partitions": self.positions(indexes)} for name, indexes in topics],
        }

    def positions(self, indexes: list[int]) -> list[dict[str, object]]:
        return [
            {
                "partition_index": index,
                "committed_offset": self.random.randrange(100),
                "committed_leader_epoch": self.mostly(-1, 0, 3),
                "committed_metadata": self.mostly("note", "", None, "x" * 4097, percent=95),
            }
            for index in indexes
        ]

    def join_classic(self, group: str) -> None:
        fields: dict[str, object] = {
            "group_id": group,
            "session_timeout_ms": TIMEOUT_MS,
            "rebalance_timeout_ms": TIMEOUT_MS,
            "member_id": "",
            "group_instance_id": "static",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription("elsewhere")}],
        }
        joined = self.ask(JOIN_GROUP, fields, version=9)
        member = {"member_id": joined["member_id"], "generation_id": joined["generation_id"], "group_instance_id": "static"}
        given = [{"member_id": joined["member_id"], "assignment": b""}]
        protocol = {"protocol_type": "consumer", "protocol_name": "range"}
        self.ask(SYNC_GROUP, {"group_id": group, **member, **protocol, "assignments": given}, version=5)
        self.groups[group] = member

    def join_consumer(self, group: str) -> None:
        fields = {
            "group_id": group,
            "member_id": "someone",
            "member_epoch": 0,
            "rebalance_timeout_ms": TIMEOUT_MS,
            "subscribed_topic_names": [self.prefix + "elsewhere"],
            "topic_partitions": [],
        }
        joined = self.ask(CONSUMER_GROUP_HEARTBEAT, fields, version=1)
        self.groups[group] = {"member_id": "someone", "generation_id": joined["member_epoch"], "group_instance_id": None}

    def step(self) -> None:
        kinds = [self.commit_pending] * 8 + [self.add_group] * 3 + [self.end_some] * 4 + [self.commit] * 3 + [self.fetch] * 6
        kinds += [self.fetch_all, self.forget, self.delete_group, self.list_groups, self.begin_again]
        if self.chance(3):
            self.recreate()
        else:
            self.random.choice(kinds)()

    def group(self) -> str:
        return self.mostly(self.random.choice(list(self.groups)), self.prefix + "nobody", percent=95)

    def chosen(self) -> list[tuple[str, list[int]]]:
        return [(name, self.some([0, 1], 2)) for name in self.some(list(self.topic_ids), 2)]

    def commit_pending(self) -> None:
        group = self.mostly(self.random.choice(list(self.groups)), "", percent=97)
        version = self.mostly(5, 0, 1, 2, 3, 4, percent=60)
        member = self.groups.get(group, NOBODY)
        topics = [
            {"name": self.mostly(name, self.prefix + "missing"), "partitions": self.positions(self.mostly(indexes, [*indexes, 7]))}
            for name, indexes in self.chosen()
        ]
        fields = {
            **self.who(),
            "group_id": group,
            "generation_id": member["generation_id"] + self.mostly(0, 1, -1, percent=90),
            "member_id": self.mostly(member["member_id"], "", "nobody", percent=90),
            "group_instance_id": self.mostly(member["group_instance_id"], None, "nobody", percent=90),
            "topics": topics,
        }
        if self.chance(10):
            fields |= NOBODY
        with self.settled():
            self.ask(TXN_OFFSET_COMMIT, fields, version=version)

    def who(self) -> dict[str, object]:
        name = self.random.choice(list(self.present))
        producer_id, epoch = self.present[name]
        return {"transactional_id": name, "producer_id": producer_id, "producer_epoch": max(epoch + self.mostly(0, -1, 1, percent=95), 0)}

    def add_group(self) -> None:
        """What clients do before the first commit, up to version 4 of that."""
        with self.settled():
            self.ask(ADD_OFFSETS_TO_TXN, {**self.who(), "group_id": self.random.choice(list(self.groups))})

    def end_some(self) -> None:
        who = self.who()
        with self.settled():
            answer = self.ask(END_TXN, {**who, "committed": self.chance(60)}, version=self.mostly(5, 4, percent=60))
        self.granted(str(who["transactional_id"]), answer)

    def begin_again(self) -> None:
        """Another one takes the transactional id: what is open is aborted."""
        name = self.random.choice(list(self.present))
        for _ in range(2):  # the first time it is told to wait for that
            self.begin(name, NONE, timeout_ms=60_000, version=5)

    def commit(self) -> None:
        self.ask(
            OFFSET_COMMIT, self.commit_fields(self.random.choice(list(self.groups)), self.chosen()), version=self.version(OFFSET_COMMIT, 9)
        )

    def asked_of(self, group: str) -> dict[str, object]:
        topics = [{"name": name, "topic_id": self.topic_ids[name], "partition_indexes": indexes} for name, indexes in self.chosen()]
        return {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}

    def fetch(self) -> None:
        asked = [self.asked_of(group) for group in self.some([*self.groups, self.prefix + "nobody"], 2)]
        self.ask(OFFSET_FETCH, {**asked[0], "groups": asked, "require_stable": self.chance(80)})

    def fetch_all(self) -> None:
        one = self.asked_of(self.group()) | {"topics": None}
        self.ask(OFFSET_FETCH, {**one, "groups": [one], "require_stable": self.chance(80)}, version=self.version(OFFSET_FETCH, 2))

    def forget(self) -> None:
        topics = [{"name": name, "partitions": [{"partition_index": index} for index in indexes]} for name, indexes in self.chosen()]
        self.ask(OFFSET_DELETE, {"group_id": self.group(), "topics": topics})

    def delete_group(self) -> None:
        name = self.group()
        self.ask(DELETE_GROUPS, {"groups_names": [name]})
        if self.groups.get(name) is NOBODY:
            self.commit_well(name)

    def list_groups(self) -> None:
        self.ask(LIST_GROUPS, {"states_filter": [], "types_filter": []})

    def recreate(self) -> None:
        """Delete a topic, with it the offsets, pending or not, and make another of that name."""
        name = self.random.choice(list(self.topic_ids))
        self.ask(DELETE_TOPICS, {"topic_names": [name], "timeout_ms": 10_000}, version=5)
        for group in self.groups:
            self.ask(OFFSET_FETCH, {"groups": [{"group_id": group, "topics": None}], "require_stable": False}, version=8)
        self.create_topic(name, 2)
