"""Options of topics and brokers: described, set, taken back, with what is wrong about names, values and resources."""

from tests.connection import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from tests.differential.scenario import Scenario

VALUES: dict[str, tuple[str | None, ...]] = {
    "cleanup.policy": ("compact", "delete", "compact,delete", "", "nonsense", None),
    "compression.type": ("zstd", "producer", "brotli"),
    "max.message.bytes": ("1000", "0", "-1", "abc", "99999999999"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime", "createtime"),
    "min.cleanable.dirty.ratio": ("0.3", "1.5", "x"),
    "min.insync.replicas": ("1", "0"),
    "retention.bytes": ("-1", "1000000", "-2"),
    "retention.ms": ("-1", "100000000", "-2", " 5000000 ", ""),
    "segment.bytes": ("2000000", "10"),
    "no.such.option": ("1",),
    "": ("1",),
}
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
UNKNOWN, TOPIC, BROKER = 0, 2, 4


class ConfigsScenario(Scenario):
    """DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""

    name = "configs"

    def prepare(self) -> None:
        for number in range(2):
            self.create_topic(f"{self.prefix}{number}")

    def step(self) -> None:
        self.random.choice([self.describe, self.alter, self.alter_incrementally, self.alter_incrementally])()

    def resource(self) -> dict[str, object]:
        topic = {"resource_type": TOPIC, "resource_name": self.random.choice(list(self.topic_ids))}
        odd = [
            {"resource_type": TOPIC, "resource_name": self.prefix + "missing"},
            {"resource_type": TOPIC, "resource_name": ""},
            {"resource_type": TOPIC, "resource_name": "a b"},
            {"resource_type": BROKER, "resource_name": "7"},
            {"resource_type": BROKER, "resource_name": "x"},
            {"resource_type": UNKNOWN, "resource_name": "x"},
            {"resource_type": 99, "resource_name": "x"},
        ]
        return dict(self.mostly(topic, *odd, percent=80))

    def describe(self) -> None:
        resource = self.resource()
        names = self.some([name for name in VALUES if name]) if self.chance(70) else None
        fields = {
            "resources": [resource | {"configuration_keys": names}],
            "include_synonyms": self.chance(50),
            "include_documentation": self.chance(50),
        }
        self.ask(DESCRIBE_CONFIGS, fields)

    def show(self, resource: dict[str, object]) -> None:
        """What became of it; Kafka's broker hears of changes a moment later."""
        fields = {"resources": [resource | {"configuration_keys": list(VALUES)}], "include_synonyms": True}
        self.ask(DESCRIBE_CONFIGS, fields)

    def alter(self) -> None:
        resource = self.resource()
        configs = [{"name": name, "value": self.random.choice(VALUES[name])} for name in self.some(list(VALUES), 2)]
        entry = resource | {"configs": configs}
        # Kafka never answers an AlterConfigs that names a resource twice.
        self.ask(ALTER_CONFIGS, {"resources": [entry], "validate_only": self.chance(20)})
        self.show(resource)

    def alter_incrementally(self) -> None:
        resource = self.resource()
        configs = []
        for name in self.some(list(VALUES), 2):
            operation = self.mostly(SET, DELETE, APPEND, SUBTRACT, 9, -1, percent=60)
            configs.append({"name": name, "value": self.random.choice(VALUES[name]), "config_operation": operation})
        if self.chance(5):
            configs.append(configs[0])
        entry = resource | {"configs": configs}
        entries = self.mostly([entry], [entry, entry], percent=95)
        self.ask(INCREMENTAL_ALTER_CONFIGS, {"resources": entries, "validate_only": self.chance(20)})
        self.show(resource)
