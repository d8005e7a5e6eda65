"""Topics are made, grown, described and deleted, with all that can be wrong about it."""

from typing import Any
from uuid import UUID

from tests.connection import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_TOPIC_PARTITIONS,
    METADATA,
)
from tests.differential.scenario import Scenario

BAD_NAMES = ("", ".", "..", "a b", "x" * 250, "ü", "a/b")
ODD_NAMES = (*BAD_NAMES, "__consumer_offsets")
CONFIGS = (
    ("retention.ms", "1000000000"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "nonsense"),
    ("cleanup.policy", "compact,delete"),
    ("max.message.bytes", "-1"),
    ("max.message.bytes", "100000"),
    ("min.insync.replicas", "0"),
    ("min.insync.replicas", "1"),
    ("no.such.option", "1"),
    ("segment.bytes", "1"),
    ("compression.type", "zstd"),
    ("compression.type", "brotli"),
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.type", "sometimes"),
    ("retention.bytes", ""),
    ("retention.ms", None),
    ("", "1"),
)
NOBODY = UUID(int=77)


class TopicsScenario(Scenario):
    """CreateTopics, CreatePartitions, DeleteTopics, Metadata, DescribeTopicPartitions, DescribeLogDirs, DescribeCluster."""

    name = "topics"

    def prepare(self) -> None:
        """Nothing: every topic is made by a step."""

    def step(self) -> None:
        kinds = [self.create, self.create, self.delete, self.grow, self.metadata, self.metadata, self.page, self.directories, self.cluster]
        self.random.choice(kinds)()

    def any_name(self) -> str:
        return self.prefix + str(self.random.randrange(6))

    def existing(self) -> str:
        return self.random.choice(list(self.topic_ids) or [self.any_name()])

    def create(self) -> None:
        topics = [self.wanted_topic() for _ in range(self.mostly(1, 2, 3, 0))]
        fields = {"topics": topics, "timeout_ms": 10_000, "validate_only": self.chance(15)}
        answer = self.ask(CREATE_TOPICS, fields)
        if not fields["validate_only"]:
            for topic in answer["topics"]:
                if topic["error_code"] == "none":
                    counts = [one["num_partitions"] if one["num_partitions"] > 0 else len(one["assignments"]) or 2
                              for one in topics if one["name"] == topic["name"]]  # fmt: skip
                    self.settle(topic["name"], counts[0])

    def wanted_topic(self) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "name": self.mostly(self.any_name(), *ODD_NAMES, self.any_name().replace("-", "_"), self.any_name().replace("-", ".")),
            "num_partitions": self.mostly(self.random.randint(1, 4), -1, 0, -2, percent=80),
            "replication_factor": self.mostly(1, -1, 0, 2, -2, percent=80),
            "assignments": [],
            "configs": [],
        }
        if self.chance(20):
            entry |= self.mostly({"num_partitions": -1, "replication_factor": -1}, {}, percent=70)
            entry["assignments"] = [
                {"partition_index": self.mostly(index, 0, 5, -1), "broker_ids": self.mostly([1], [], [1, 1], [2], [-1], percent=70)}
                for index in range(self.random.randint(1, 3))
            ]
        if self.chance(30):
            entry["configs"] = [{"name": name, "value": value} for name, value in self.some(CONFIGS, 2)]
        return entry

    def delete(self) -> None:
        # Not the topic of committed offsets, which Kafka would delete.
        names = [self.mostly(self.existing(), self.any_name(), *BAD_NAMES, percent=70) for _ in range(self.mostly(1, 2))]
        version = self.version(DELETE_TOPICS)
        entries = []
        for name in names:
            by_id = {"name": None, "topic_id": self.topic_ids.get(name, NOBODY)}
            entries.append(self.random.choice([{"name": name, "topic_id": None}, by_id, self.mostly(by_id, by_id | {"name": name})]))
        fields = {"topic_names": names, "topics": entries, "timeout_ms": 10_000}
        answer = self.ask(DELETE_TOPICS, fields, version=version)
        for one in answer["responses"]:
            if one["error_code"] == "none":
                self.topic_ids.pop(one["name"], None)
                self.ask(METADATA, {"topics": [{"name": one["name"], "topic_id": None}], "allow_auto_topic_creation": False}, version=12)

    def grow(self) -> None:
        name = self.mostly(self.existing(), self.any_name(), *BAD_NAMES)
        count = self.partitions.get(name, 1) + self.mostly(1, 0, -1, 2, -9, percent=60)
        entry: dict[str, Any] = {"name": name, "count": count, "assignments": None}
        if self.chance(25):
            entry["assignments"] = [
                {"broker_ids": self.mostly([1], [], [1, 1], [2], percent=70)}
                for _ in range(max(0, self.mostly(count - self.partitions.get(name, 1), 0, 1, 3)))
            ]
        fields = {"topics": self.mostly([entry], [entry, entry]), "timeout_ms": 10_000, "validate_only": self.chance(15)}
        answer = self.ask(CREATE_PARTITIONS, fields)
        for one in answer["results"]:
            if one["error_code"] == "none" and not fields["validate_only"]:
                self.settle(one["name"], count)

    def metadata(self) -> None:
        version = self.version(METADATA)
        names = [self.mostly(self.existing(), self.any_name(), *ODD_NAMES, percent=70) for _ in range(self.mostly(1, 2, 3))]
        by_id = version >= 12 and self.chance(40)
        wanted: list[dict[str, object]] | None = [
            {"name": None, "topic_id": self.topic_ids.get(name, NOBODY)} if by_id else {"name": name, "topic_id": None} for name in names
        ]
        if wanted and version >= 10 and self.chance(10):
            wanted[0]["topic_id"] = self.topic_ids.get(names[0], NOBODY)  # beside its name: before version 12 by id is an error
        if self.chance(15):
            wanted = None if version >= 1 else []
        fields = {
            "topics": wanted,
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": self.chance(30),
            "include_cluster_authorized_operations": self.chance(30),
        }
        if version >= 4 or wanted == [] or wanted is None or all(one["name"] in self.topic_ids for one in wanted):
            self.ask(METADATA, fields, version=version)

    def page(self) -> None:
        names = [self.mostly(self.existing(), self.any_name(), *ODD_NAMES, percent=70) for _ in range(self.random.randint(0, 3))]
        cursor = None
        if self.chance(40):
            cursor = {
                "topic_name": self.mostly(self.existing(), self.any_name(), ""),
                "partition_index": self.mostly(0, 1, 2, 9, -1 if names else 0, percent=40),
            }
        fields = {
            "topics": [{"name": name} for name in names],
            "response_partition_limit": self.mostly(2000, 0, 1, 2, 3, -1, percent=30),
            "cursor": cursor,
        }
        if names or cursor is not None:
            self.ask(DESCRIBE_TOPIC_PARTITIONS, fields)

    def directories(self) -> None:
        topics = [
            {"topic": self.mostly(self.existing(), self.any_name()), "partitions": self.some([0, 1, 2, 7])}
            for _ in range(self.random.randint(0, 2))
        ]
        self.ask(DESCRIBE_LOG_DIRS, {"topics": None if self.chance(20) else topics})

    def cluster(self) -> None:
        version = self.version(DESCRIBE_CLUSTER)
        fields = {
            "include_cluster_authorized_operations": self.chance(50),
            "endpoint_type": self.mostly(1, 2, 3, 0, percent=60),
            "include_fenced_brokers": self.chance(50),
        }
        self.ask(DESCRIBE_CLUSTER, fields, version=version)
