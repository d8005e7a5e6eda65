"""What a cluster says about consumer groups, for the commands of `millstream group`: descriptions, committed offsets, ends of partitions.

Asked with confluent-kafka's AdminClient; nothing here joins a group or changes one. A group that does not exist is one sentence,
however the broker puts it: older versions of the protocol call it a group in the state Dead.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from millstream.cli.kafka_client import REQUEST_SECONDS, Cluster
from millstream.cli.start_position import OffsetRange
from millstream.errors import CommandFailed
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka.admin import AdminClient


class Committed(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    metadata: str


def describe_groups(cluster: Cluster, admin: "AdminClient", *, names: Sequence[str]) -> list[Any]:
    """The descriptions of groups that must exist, in the order of the names."""
    found = [find_group(cluster, admin, name=name) for name in names]
    missing = [name for name, group in zip(names, found, strict=True) if group is None]
    if missing:
        raise CommandFailed(f"There is no group {missing[0]!r} at {cluster.brokers}: `millstream group list` shows those that exist.")
    return found


def find_group(cluster: Cluster, admin: "AdminClient", *, name: str) -> Any | None:
    """The description of a group, or None if there is no such group."""
    from confluent_kafka import KafkaException

    with cluster.plain_errors(f"describing the group {name!r}"):
        try:
            group = admin.describe_consumer_groups([name], request_timeout=REQUEST_SECONDS)[name].result()
        except KafkaException as exception:
            if exception.args[0].name() == "GROUP_ID_NOT_FOUND":
                return None
            raise
    return None if state_name(group.state) == "dead" else group


def committed_offsets(cluster: Cluster, admin: "AdminClient", *, group: str) -> dict[TopicPartition, Committed]:
    """Every offset that the group has committed."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    with cluster.plain_errors(f"reading the offsets of the group {group!r}"):
        answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_SECONDS)[group].result()
    return {
        TopicPartition(found.topic, found.partition): Committed(found.offset, _metadata(found))
        for found in answer.topic_partitions or []
        if found.error is None and found.offset >= 0
    }


def _metadata(found: "confluent_kafka.TopicPartition") -> str:
    """What was committed beside the offset, as far as it can be known."""
    try:
        return found.metadata or ""
    except UnicodeDecodeError:
        # Seen with confluent-kafka 2.16, rarely: bytes that were never committed. The offset beside them is right.
        return ""


def offset_ranges(cluster: Cluster, admin: "AdminClient", *, places: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
    """First offset and end of each partition; a partition that is gone (its topic was deleted) is left out."""
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # their types do not list what they re-export

    specs: list[OffsetSpec] = [OffsetSpec.earliest(), OffsetSpec.latest()]  # type: ignore[no-untyped-call] # theirs have no types
    earliest, latest = (_list_offsets(cluster, admin, places=places, spec=spec) for spec in specs)
    return {place: OffsetRange(earliest[place], latest[place]) for place in places if place in earliest and place in latest}


def offsets_for_time(
    cluster: Cluster, admin: "AdminClient", *, places: Collection[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """The first offset at or after that time in each partition, -1 where all records are older."""
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # as above

    return _list_offsets(cluster, admin, places=places, spec=OffsetSpec.for_timestamp(timestamp_ms))


def _list_offsets(cluster: Cluster, admin: "AdminClient", *, places: Collection[TopicPartition], spec: Any) -> dict[TopicPartition, int]:
    import confluent_kafka

    if not places:
        return {}
    offsets = {}
    with cluster.plain_errors("asking for the ends of partitions"):
        futures = admin.list_offsets({confluent_kafka.TopicPartition(*place): spec for place in places}, request_timeout=REQUEST_SECONDS)
        for asked, future in futures.items():
            try:
                offsets[TopicPartition(asked.topic, asked.partition)] = int(future.result().offset)
            except confluent_kafka.KafkaException as exception:
                if exception.args[0].name() != "UNKNOWN_TOPIC_OR_PART":
                    raise
    return offsets


def state_name(state: Any) -> str:
    """`PREPARING_REBALANCING` -> `preparing-rebalance`, the words of `millstream group list --state`."""
    return str(state.name).lower().replace("_", "-").replace("rebalancing", "rebalance")


def type_name(kind: Any) -> str:
    """`CLASSIC` -> `classic`."""
    return str(kind.name).lower()
