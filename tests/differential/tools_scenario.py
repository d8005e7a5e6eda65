"""What tools ask for beside topics and groups: access rules, elections, reassignments, quotas, users, transactions, lists of resources.

Most of it a broker without an authorizer and with one replica of everything answers with little; it has to be the same little.
"""

from tests.connection import API_VERSIONS, FIND_COORDINATOR
from tests.differential.scenario import Scenario

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS, ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 29, 30, 31, 43, 45, 46
DESCRIBE_QUOTAS, DESCRIBE_USERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS, LIST_CONFIG_RESOURCES = 48, 50, 65, 66, 74


class ToolsScenario(Scenario):
    """Whichever of these APIs both brokers have."""

    name = "tools"

    def prepare(self) -> None:
        self.create_topic(self.prefix + "topic", 2)

    def step(self) -> None:
        kinds = {
            DESCRIBE_ACLS: self.describe_acls,
            CREATE_ACLS: self.create_acls,
            DELETE_ACLS: self.delete_acls,
            ELECT_LEADERS: self.elect,
            ALTER_REASSIGNMENTS: self.reassign,
            LIST_REASSIGNMENTS: self.list_reassignments,
            DESCRIBE_QUOTAS: self.quotas,
            DESCRIBE_USERS: self.users,
            DESCRIBE_TRANSACTIONS: self.describe_transactions,
            LIST_TRANSACTIONS: self.list_transactions,
            LIST_CONFIG_RESOURCES: self.config_resources,
            FIND_COORDINATOR: self.find_coordinators,
            API_VERSIONS: self.client_software,
        }
        self.random.choice([take for api_key, take in kinds.items() if self.offers(api_key)])()

    def place(self) -> tuple[str, int]:
        return self.mostly(self.prefix + "topic", self.prefix + "missing", percent=80), self.mostly(0, 1, 9, -1)

    def acl(self) -> dict[str, object]:
        return {
            "resource_type": 2,
            "resource_name": "x",
            "resource_pattern_type": 3,
            "principal": "User:x",
            "host": "*",
            "operation": 2,
            "permission_type": 3,
        }

    def acl_filter(self) -> dict[str, object]:
        """Numbers that mean something: Kafka closes the connection at others."""
        return {
            "resource_type_filter": self.mostly(1, 2),
            "resource_name_filter": self.mostly(None, "x"),
            "pattern_type_filter": self.mostly(1, 3),
            "principal_filter": None,
            "host_filter": None,
            "operation": self.mostly(1, 2),
            "permission_type": self.mostly(1, 3),
        }

    def describe_acls(self) -> None:
        self.ask(DESCRIBE_ACLS, self.acl_filter())

    def create_acls(self) -> None:
        self.ask(CREATE_ACLS, {"creations": [self.acl() for _ in range(self.mostly(1, 0, 2))]})

    def delete_acls(self) -> None:
        self.ask(DELETE_ACLS, {"filters": [self.acl_filter() for _ in range(self.mostly(1, 0, 2))]})

    def elect(self) -> None:
        name, index = self.place()
        fields = {
            "election_type": self.mostly(0, 1, percent=70),
            "topic_partitions": self.mostly([{"topic": name, "partitions": [index]}], [], percent=90),
            "timeout_ms": 10_000,
        }
        self.ask(ELECT_LEADERS, fields)

    def reassign(self) -> None:
        name, index = self.place()
        entry = {"partition_index": index, "replicas": self.mostly([1], None, [], [1, 1], [7], [-1], [1, 7], percent=50)}
        allows = self.chance(70)
        fields = {"timeout_ms": 10_000, "allow_replication_factor_change": allows, "topics": [{"name": name, "partitions": [entry]}]}
        self.ask(ALTER_REASSIGNMENTS, fields)

    def list_reassignments(self) -> None:
        name, index = self.place()
        fields = {"timeout_ms": 10_000, "topics": self.mostly(None, [{"name": name, "partition_indexes": [index]}], [], percent=40)}
        self.ask(LIST_REASSIGNMENTS, fields)

    def quotas(self) -> None:
        components = [
            {"entity_type": self.mostly("user", "client-id", "ip", "nonsense", ""), "match_type": self.mostly(0, 1, 2, 9), "match": "x"}
            for _ in range(self.mostly(1, 0, 2))
        ]
        self.ask(DESCRIBE_QUOTAS, {"components": components, "strict": self.chance(50)})

    def users(self) -> None:
        self.ask(
            DESCRIBE_USERS, {"users": self.mostly(None, [], [{"name": "x"}], [{"name": "x"}, {"name": "x"}], [{"name": ""}], percent=30)}
        )

    def describe_transactions(self) -> None:
        self.ask(DESCRIBE_TRANSACTIONS, {"transactional_ids": self.mostly([self.prefix + "nobody"], [], [""])})

    def list_transactions(self) -> None:
        fields = {
            "state_filters": self.mostly([], ["Ongoing"], ["nonsense"]),
            "producer_id_filters": self.mostly([], [4242]),
            "duration_filter": self.mostly(-1, 0, 1000),
        }
        self.ask(LIST_TRANSACTIONS, fields)

    def config_resources(self) -> None:
        self.ask(LIST_CONFIG_RESOURCES, {"resource_types": self.mostly([], [2], [4], [16], [32], [8], [99], percent=20)})

    def find_coordinators(self) -> None:
        fields = {
            "key": self.mostly(self.prefix + "group", "", percent=80),
            "key_type": self.mostly(0, 3, -1, percent=80),
            "coordinator_keys": self.mostly([self.prefix + "group"], ["a", "", "b"], [], percent=70),
        }
        self.ask(FIND_COORDINATOR, fields)

    def client_software(self) -> None:
        """Names of clients are checked; the list itself is compared by `tests/clients/test_api_versions.py`."""
        name = self.random.choice(["", " ", "a b", "-x", "x-"])
        self.ask(API_VERSIONS, {"client_software_name": name, "client_software_version": "1"}, version=self.version(API_VERSIONS, 3))
