"""What clients and brokers ask of the coordinator of transactions, as values that the machine decides.

`new_producer_id` is a fresh id where the machine said that it needs one (`TransactionShard.needs_producer_id`): taking one may wait, and a
machine does not.
"""

from typing import NamedTuple

from millstream.topic_partition import TopicPartition
from millstream.transactions.transaction import Producer


class InitProducerId(NamedTuple):
    """A producer begins, or goes on after an error and says who it was (`expected`, KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None
    new_producer_id: int | None = None


class AddPartitions(NamedTuple):
    """A producer is about to write to partitions in its transaction; offsets of a group are a partition of `__consumer_offsets`."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    client_version: int = 0


class VerifyPartitions(NamedTuple):
    """A broker asks whether partitions are part of a producer's transaction (KIP-890)."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]


class EndTransaction(NamedTuple):
    """A producer commits or aborts its transaction."""

    transactional_id: str
    producer: Producer
    is_commit: bool
    client_version: int = 0
    new_producer_id: int | None = None


TransactionCommand = InitProducerId | AddPartitions | VerifyPartitions | EndTransaction
