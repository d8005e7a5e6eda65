"""`millstream group describe`: who is in a group, who has which partitions, and how far behind each partition is (`lag`).

Every partition of a topic that the group reads or has read is shown, also those for which it has committed nothing yet: what is in them is
still to be consumed, and counts.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from millstream.cli.group.consumer_groups import offset_ranges
from millstream.cli.group.known_group import Groups, KnownGroup, Member
from millstream.cli.group.lag import UNKNOWN, Lag, lags, total
from millstream.cli.group.paper_groups import Zookeeper
from millstream.cli.kafka_client import Cluster
from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, GroupNames, Output, OutputFormat
from millstream.cli.position import OffsetRange
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from millstream.cli.partition_reader import PartitionReader

PARTITION_COLUMNS = ("topic", "partition", "committed", "latest", "lag", "lag seconds", "member")
MEMBER_COLUMNS = ("member", "client", "host", "instance", "partitions")


def describe(
    names: GroupNames,
    *,
    zookeeper: Zookeeper = None,
    brokers: Brokers = DEFAULT_BROKERS,
    output: OutputFormat = Output.TABLE,
    client_options: ClientOptions = None,
) -> None:
    """Show the members of groups, their partitions, and the lag in messages and in seconds.

    The lag in seconds is the age of the oldest message that the group has not committed, by its timestamp and this machine's clock.
    A member that was killed is shown until its session ends. Kafka's protocol does not say when that is; the log of the broker does.
    """
    cluster = Cluster.of(brokers, client_options)
    groups = Groups(cluster, zookeeper)
    with cluster.reader() as reader:
        described = [_description(groups, reader, group=group) for group in groups.named(names)]
    if output is Output.JSON:
        print_json(described)
        return
    for group in described:
        _print(group)


def _description(groups: Groups, reader: "PartitionReader", *, group: KnownGroup) -> dict[str, Any]:
    places = group.places(groups.partitions)
    ranges = offset_ranges(groups.cluster, groups.admin, places=places)
    behind = lags(reader, {place: group.committed.get(place) for place in places}, ranges=ranges)
    sum_of_lags = total(behind.values())
    notes = {} if group.is_paper else reader.commit_metadata(group.name)
    return {
        "group": group.name,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "lag": sum_of_lags.messages,
        "lag_seconds": sum_of_lags.seconds,
        "members": [_member(member) for member in group.members],
        "partitions": [{**_partition(group, place, ranges=ranges, behind=behind), "metadata": notes.get(place)} for place in places],
    }


def _member(member: Member) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "client": member.client,
        "host": member.host,
        "instance": member.instance,
        "partitions": [list(place) for place in member.partitions],
    }


def _partition(
    group: KnownGroup, place: TopicPartition, *, ranges: Mapping[TopicPartition, OffsetRange], behind: Mapping[TopicPartition, Lag]
) -> dict[str, Any]:
    lag = behind.get(place, UNKNOWN)
    return {
        "topic": place.topic,
        "partition": place.partition,
        "committed": group.committed.get(place),
        "latest": ranges[place].latest if place in ranges else None,
        "lag": lag.messages,
        "lag_seconds": lag.seconds,
        "member": group.owners.get(place),
    }


def _print(group: Mapping[str, Any]) -> None:
    count = len(group["members"])
    facts = [
        group["group"],
        group["state"],
        "the paper's, in ZooKeeper" if group["type"] == "paper" else f"{group['type']} protocol",
        f"{count} member{'' if count == 1 else 's'}",
        f"lag {'unknown' if group['lag'] is None else group['lag']}",
    ]
    if group["lag_seconds"] is not None:
        facts.append(f"{group['lag_seconds']:.1f} s")
    if group["assignor"]:
        facts.append(f"assignor {group['assignor']}")
    if group["coordinator"]:
        facts.append(f"coordinator {group['coordinator']}")
    print("  ".join(facts))
    if group["partitions"]:
        print_table(PARTITION_COLUMNS, [_partition_cells(partition) for partition in group["partitions"]])
    if group["members"]:
        print_table(MEMBER_COLUMNS, [_member_cells(member) for member in group["members"]])


def _partition_cells(partition: Mapping[str, Any]) -> list[object]:
    seconds = partition["lag_seconds"]
    values = [partition[name] for name in ("topic", "partition", "committed", "latest", "lag")]
    return [_shown(value) for value in [*values, None if seconds is None else f"{seconds:.1f}", partition["member"]]]


def _member_cells(member: Mapping[str, Any]) -> list[object]:
    owned: dict[str, list[str]] = {}
    for topic, partition in sorted(member["partitions"]):
        owned.setdefault(topic, []).append(str(partition))
    partitions = " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in owned.items())
    return [_shown(value) for value in (member["member"], member["client"], member["host"], member["instance"], partitions or None)]


def _shown(value: object) -> object:
    return "-" if value is None else value
