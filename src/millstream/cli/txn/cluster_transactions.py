"""How `millstream txn` reaches a cluster: our own client, because confluent-kafka cannot ask about transactions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from millstream.cli.connected_cluster import connected_cluster
from millstream.cli.kafka_client import close_name
from millstream.client.admin.transaction_admin import KnownTransaction, OpenInLog, TransactionAdmin
from millstream.client.cluster import Cluster as ConnectedCluster
from millstream.errors import CommandFailed
from millstream.topic_partition import TopicPartition

TIMEOUT_S = 20.0


@dataclass(frozen=True)
class ClusterTransactions:
    """The transactions of the cluster that a command talks to."""

    brokers: str
    admin: TransactionAdmin
    cluster: ConnectedCluster

    def one(self, transactional_id: str) -> KnownTransaction:
        """A transactional id that must exist."""
        found = self.admin.named([transactional_id]).get(transactional_id)
        if found is None:
            names = [one.transactional_id for one in self.admin.all()]
            meant = close_name(transactional_id, names)
            hint = f"did you mean {meant}?" if meant else "`millstream txn list` shows those that there are."
            raise CommandFailed(f"There is no transactional id {transactional_id!r} at {self.brokers}; {hint}")
        return found

    def open_in(self, places: Sequence[TopicPartition]) -> list[OpenInLog]:
        """What is open in those of the partitions that have a leader: a topic may be deleted while it is part of a transaction."""
        known = self.cluster.refresh({place.topic for place in places}).topics
        led = {TopicPartition(name, number) for name in known for number, one in known[name].partitions.items() if one.leader >= 0}
        return self.admin.open_on([place for place in places if place in led])

    def partitions(self, topics: list[str]) -> list[TopicPartition]:
        """The partitions of these topics, or of all, that have a leader."""
        known = self.cluster.refresh(topics or None).topics
        for name in topics:
            if name not in known or known[name].error_code:
                meant = close_name(name, self.cluster.refresh(None).topics)
                hint = f"did you mean {meant}?" if meant else "`millstream topic list` shows those that there are."
                raise CommandFailed(f"There is no topic {name!r} at {self.brokers}; {hint}")
        chosen = topics or sorted(known)
        return [TopicPartition(name, number) for name in chosen for number, one in known[name].partitions.items() if one.leader >= 0]

    def no_such(self, place: TopicPartition) -> str:
        """The sentence for a partition that is not there, or has no leader that could be asked."""
        numbers = self.cluster.refresh([place.topic]).topics[place.topic].partitions
        if place.partition in numbers:
            return f"{place} at {self.brokers} has no leader: `millstream cluster status` shows which brokers are missing."
        last = len(numbers) - 1
        return f"The topic {place.topic!r} at {self.brokers} has no partition {place.partition}: it has {len(numbers)}, from 0 to {last}."


@contextmanager
def open_transactions(brokers: str, client_options: list[str] | None) -> Iterator[ClusterTransactions]:
    """The transactions of the cluster that the flags `-b` and `-X` name."""
    with connected_cluster(brokers, client_options) as cluster:
        yield ClusterTransactions(brokers, TransactionAdmin(cluster, timeout_s=TIMEOUT_S), cluster)
