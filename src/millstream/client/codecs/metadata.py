"""What a cluster says about itself: its brokers, its topics, and who leads each partition. Values, made from a Metadata answer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

from millstream.address import Address
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import kafka_error
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.responses.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

NO_LEADER: Final = -1
_NEWEST: Final = 12


@dataclass(frozen=True)
class PartitionMetadata:
    """One partition: the id of the broker that leads it (`NO_LEADER` if none does), and its leader epoch (-1 if not known)."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


@dataclass(frozen=True)
class TopicMetadata:
    """One topic; `error_code` says why it has no partitions. Its id is None where the broker has no topic ids."""

    name: str
    topic_id: UUID | None
    error_code: int
    partitions: Mapping[int, PartitionMetadata]

    def check(self) -> None:
        """Raise if the topic cannot be used."""
        if self.error_code:
            raise kafka_error(self.error_code, f"the topic {self.name!r} cannot be used")


@dataclass(frozen=True)
class ClusterMetadata:
    """One Metadata answer, or several put together."""

    brokers: Mapping[int, Address] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    controller: int = -1
    cluster_id: str | None = None
    racks: Mapping[int, str | None] = field(default_factory=dict)

    def updated(self, newer: "ClusterMetadata") -> "ClusterMetadata":
        """The brokers as they are now; the topics that were asked for replaced, the others kept."""
        return ClusterMetadata(newer.brokers, {**self.topics, **newer.topics}, newer.controller, newer.cluster_id, newer.racks)


def metadata_request(topics: Iterable[str] | None, *, create: bool = False) -> "MessageRequest[MetadataResponse]":
    """Ask about some topics, or all (None); `create` lets the broker make the ones that are missing, if it is set to do so."""
    wanted = None if topics is None else [{"name": name, "topic_id": None} for name in topics]
    fields = {
        "topics": wanted,
        "allow_auto_topic_creation": create,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    # Before version 4 a broker creates whatever it is asked about.
    return MessageRequest(ApiKey.METADATA, fields, lowest=4, highest=_NEWEST)


def read_metadata(answer: "MetadataResponse") -> ClusterMetadata:
    """What an answer of any version says."""
    return ClusterMetadata(
        brokers={broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers},
        topics={topic.name: _read_topic(topic.name, topic) for topic in answer.topics if topic.name is not None},
        controller=answer.controller_id,
        cluster_id=answer.cluster_id,
        racks={broker.node_id: broker.rack for broker in answer.brokers},
    )


def _read_topic(name: str, topic: "MetadataResponseTopic") -> TopicMetadata:
    partitions = {partition.partition_index: _read_partition(partition) for partition in topic.partitions}
    return TopicMetadata(name, topic.topic_id, topic.error_code, dict(sorted(partitions.items())))


def _read_partition(partition: "MetadataResponsePartition") -> PartitionMetadata:
    return PartitionMetadata(
        partition=partition.partition_index,
        leader=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replicas=partition.replica_nodes,
        in_sync_replicas=partition.isr_nodes,
    )
