"""The kinds of consumers that the tests of groups run with: each client, each way in which it divides partitions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.clients.aiokafka_group_consumer import AiokafkaGroupConsumer
from tests.clients.confluent_group_consumer import ConfluentGroupConsumer
from tests.clients.group_consumer import GroupConsumer, Membership
from tests.clients.kafka_python_group_consumer import KafkaPythonGroupConsumer

with_strategy = "partition.assignment.strategy"


@dataclass(frozen=True)
class Kind:
    """A client and the settings that make the kind."""

    name: str
    client: type[ConfluentGroupConsumer | KafkaPythonGroupConsumer | AiokafkaGroupConsumer]
    settings: Mapping[str, object] = field(default_factory=dict)

    def open(self, membership: Membership) -> GroupConsumer:
        """A consumer of this kind."""
        return self.client(replace(membership, settings={**self.settings, **membership.settings}))

    @property
    def is_new_protocol(self) -> bool:
        """Whether the broker decides who gets what (KIP-848)."""
        return self.settings.get("group.protocol") == "consumer"

    def __str__(self) -> str:
        return self.name


def _cooperative() -> tuple[object, ...]:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

    return (CooperativeStickyAssignor,)


def _range() -> tuple[object, ...]:
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    return (RangePartitionAssignor,)


RANGE = Kind("confluent-range", ConfluentGroupConsumer, {with_strategy: "range"})
ROUND_ROBIN = Kind("confluent-roundrobin", ConfluentGroupConsumer, {with_strategy: "roundrobin"})
COOPERATIVE = Kind("confluent-cooperative", ConfluentGroupConsumer, {with_strategy: "cooperative-sticky"})
CONSUMER_PROTOCOL = Kind("confluent-consumer", ConfluentGroupConsumer, {"group.protocol": "consumer"})
KAFKA_PYTHON = Kind("kafka-python", KafkaPythonGroupConsumer)
KAFKA_PYTHON_COOPERATIVE = Kind("kafka-python-cooperative", KafkaPythonGroupConsumer, {"partition_assignment_strategy": _cooperative()})
AIOKAFKA = Kind("aiokafka", AiokafkaGroupConsumer)
AIOKAFKA_RANGE = Kind("aiokafka-range", AiokafkaGroupConsumer, {"partition_assignment_strategy": _range()})

EVERY_KIND = [RANGE, ROUND_ROBIN, COOPERATIVE, CONSUMER_PROTOCOL, KAFKA_PYTHON, KAFKA_PYTHON_COOPERATIVE, AIOKAFKA]
"""Where the way of dividing matters."""
EVERY_CLIENT = [COOPERATIVE, CONSUMER_PROTOCOL, KAFKA_PYTHON, AIOKAFKA]
"""Where it does not: both protocols, all clients."""
BY_NAME = {kind.name: kind for kind in [*EVERY_KIND, AIOKAFKA_RANGE]}
