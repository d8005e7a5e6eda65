"""What a cluster says about consumer groups, for the commands of `millstream group`: descriptions, committed offsets, ends of partitions.

Asked with confluent-kafka's AdminClient; nothing here joins a group or changes one. A group that does not exist is one sentence,
however the broker puts it: older versions of the protocol call it a group in the state Dead.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from millstream.cli.kafka_client import REQUEST_SECONDS, Cluster, plain
from millstream.cli.position import OffsetRange
from millstream.errors import CommandFailed
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

LEFT_OUT: Final = ("UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "_TIMED_OUT")
"""An error belongs to its partition: the others are shown all the same."""


def list_groups(cluster: Cluster, admin: "AdminClient") -> list[Any]:
    """Every group of the cluster, with state and type."""
    with cluster.plain_errors("listing the groups"):
        result = admin.list_consumer_groups(request_timeout=REQUEST_SECONDS).result()
    if result.errors:
        raise CommandFailed(f"At {cluster.brokers} a broker did not list its groups: {plain(result.errors[0].args[0])}.")
    return list(result.valid)


def try_describe_groups(cluster: Cluster, admin: "AdminClient", *, names: Sequence[str]) -> list[Any | None]:
    """The descriptions of groups in the order of their names, None for one that does not exist."""
    from confluent_kafka import KafkaException

    if not names:
        return []
    found: list[Any | None] = []
    with cluster.plain_errors("describing groups"):
        futures = admin.describe_consumer_groups(list(dict.fromkeys(names)), request_timeout=REQUEST_SECONDS)
        for name in names:
            try:
                group = futures[name].result()
            except KafkaException as exception:
                if exception.args[0].name() != "GROUP_ID_NOT_FOUND":
                    raise
                group = None
            found.append(None if group is None or group.state.name == "DEAD" else group)
    return found


def committed_offsets(cluster: Cluster, admin: "AdminClient", *, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """Every offset that each group has committed; all groups are asked for at once."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    with cluster.plain_errors("reading committed offsets"):
        futures = {
            group: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_SECONDS)[group]
            for group in groups
        }
        answers = {group: future.result() for group, future in futures.items()}
    return {
        group: {
            TopicPartition(found.topic, found.partition): found.offset
            for found in answer.topic_partitions or []
            if found.error is None and found.offset >= 0
        }
        for group, answer in answers.items()
    }


def offset_ranges(cluster: Cluster, admin: "AdminClient", *, places: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
    """First offset and end of each partition; a partition that is gone (its topic was deleted), or has no leader now, is left out."""
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
                if exception.args[0].name() not in LEFT_OUT:
                    raise
    return {place: offset for place, offset in offsets.items() if offset >= -1}
