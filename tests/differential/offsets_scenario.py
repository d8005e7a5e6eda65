"""Committed offsets of groups without members: committed, fetched, deleted, also for topics that are not there or no longer."""

from typing import Any
from uuid import UUID

from tests.clients.group_requests import DELETE_GROUPS, OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH
from tests.connection import DELETE_TOPICS, METADATA
from tests.differential.scenario import Scenario

NOBODY = UUID(int=77)


class OffsetsScenario(Scenario):
    """OffsetCommit, OffsetFetch, OffsetDelete, DeleteGroups."""

    name = "offsets"

    def prepare(self) -> None:
        for number in range(3):
            self.create_topic(f"{self.prefix}t{number}", 2)
        self.groups = [f"{self.prefix}{number}" for number in range(3)]
        for group in self.groups:
            self.commit_well(group)

    def step(self) -> None:
        kinds = [self.commit] * 5 + [self.fetch] * 4 + [self.fetch_all, self.forget, self.delete_group]
        if self.chance(4):
            self.recreate()
        else:
            self.random.choice(kinds)()

    def group(self) -> str:
        return self.mostly(self.random.choice(self.groups), "", self.prefix + "nobody")

    def topics(self, field: str, entries: list[Any]) -> list[dict[str, object]]:
        chosen = [self.mostly(name, self.prefix + "missing") for name in self.some(list(self.topic_ids), 2)]
        named = []
        for name in dict.fromkeys(chosen):
            entry = self.topic(name)
            named.append(entry | {"topic_id": entry["topic_id"] or NOBODY, field: entries})
        return named

    def commit_well(self, group: str) -> None:
        """So that the group is there: one of which every commit was refused Kafka remembers too, empty."""
        partitions = [{"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}]
        topics = [self.topic(f"{self.prefix}t0") | {"partitions": partitions}]
        self.ask(OFFSET_COMMIT, {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}, version=9)

    def commit(self) -> None:
        partitions = [
            {
                "partition_index": self.mostly(index, 7, -1),
                "committed_offset": self.mostly(self.random.randrange(100), -1, -2, 1 << 60),
                "committed_leader_epoch": self.mostly(-1, 0, 3, -2),
                "committed_metadata": self.mostly("note", "", None, "x" * 4096, "x" * 4097, "ü" * 3000),
            }
            for index in self.some([0, 1], 2)
        ]
        fields = {
            "group_id": self.mostly(self.random.choice(self.groups), "", percent=95),
            "generation_id_or_member_epoch": self.mostly(-1, 0, 5, -2),
            "member_id": self.mostly("", "nobody", percent=93),
            "group_instance_id": self.mostly(None, "nobody", "", percent=95),
            "retention_time_ms": self.mostly(-1, 1_000_000, percent=80),
            "topics": self.mostly(self.topics("partitions", partitions), [], percent=95),
        }
        self.ask(OFFSET_COMMIT, fields)

    def one_group(self) -> dict[str, object]:
        return {
            "group_id": self.group(),
            "member_id": self.mostly(None, "", "nobody"),
            "member_epoch": self.mostly(-1, 0, 3),
            "topics": self.topics("partition_indexes", self.some([0, 1, 7, -1])),
        }

    def fetch(self) -> None:
        one = self.one_group()
        groups = [one, *(self.one_group() for _ in range(self.mostly(0, 1, 2)))]
        self.ask(OFFSET_FETCH, {**one, "groups": groups, "require_stable": self.chance(50)})

    def fetch_all(self) -> None:
        one = self.one_group() | {"topics": None}
        self.ask(OFFSET_FETCH, {**one, "groups": [one], "require_stable": self.chance(50)}, version=self.version(OFFSET_FETCH, 2))

    def forget(self) -> None:
        partitions = [{"partition_index": index} for index in self.some([0, 1, 7])]
        self.ask(OFFSET_DELETE, {"group_id": self.group(), "topics": self.topics("partitions", partitions)})

    def delete_group(self) -> None:
        names = [self.group() for _ in range(self.mostly(1, 2, 0))]
        self.ask(DELETE_GROUPS, {"groups_names": names})
        for name in set(names).intersection(self.groups):
            self.commit_well(name)

    def recreate(self) -> None:
        """Delete a topic, with it the offsets, and make another of that name."""
        name = self.random.choice(list(self.topic_ids))
        self.ask(DELETE_TOPICS, {"topic_names": [name], "timeout_ms": 10_000}, version=5)
        self.ask(METADATA, {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": False}, version=12)
        for group in self.groups:
            one = {"group_id": group, "topics": None}
            self.ask(OFFSET_FETCH, {"groups": [one]}, version=8)
        self.create_topic(name, 2)
