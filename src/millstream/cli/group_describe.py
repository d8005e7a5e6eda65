"""`millstream group describe`: who is in a group, who has which partitions, and how far behind each partition is.

A partition is shown if the group has committed an offset for it or a member owns it. What the two lags mean is said in `group_lag`.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from millstream.cli.consumer_groups import Committed, Place, committed_offsets, describe_groups, offset_ranges, state_name, type_name
from millstream.cli.group_lag import UNKNOWN, Lag, lags
from millstream.cli.kafka_client import Cluster
from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, GroupNames, Output, OutputFormat
from millstream.cli.start_position import OffsetRange

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

PARTITION_COLUMNS = ("topic", "partition", "committed", "latest", "lag", "lag seconds", "member")
MEMBER_COLUMNS = ("member", "client", "host", "instance", "partitions")


def describe(
    names: GroupNames,
    *,
    brokers: Brokers = DEFAULT_BROKERS,
    output: OutputFormat = Output.TABLE,
    client_options: ClientOptions = None,
) -> None:
    """Show the members of groups, their partitions, and the lag in messages and in seconds.

    The lag in seconds is the age of the oldest message that the group has not committed, by its timestamp and this machine's clock.
    """
    cluster = Cluster.of(brokers, client_options)
    admin = cluster.admin()
    described = [_description(cluster, admin, group=group) for group in describe_groups(cluster, admin, names=names)]
    if output is Output.JSON:
        print_json(described)
        return
    for group in described:
        _print(group)


def _description(cluster: Cluster, admin: "AdminClient", *, group: Any) -> dict[str, Any]:
    owners = {
        Place(place.topic, place.partition): member.member_id for member in group.members for place in member.assignment.topic_partitions
    }
    committed = committed_offsets(cluster, admin, group=group.group_id)
    places = sorted(committed.keys() | owners.keys())
    ranges = offset_ranges(cluster, admin, places=places)
    behind = lags(cluster, committed, ranges=ranges)
    return {
        "group": group.group_id,
        "state": state_name(group.state),
        "type": type_name(group.type),
        "assignor": group.partition_assignor or None,
        "coordinator": None if group.coordinator is None else f"{group.coordinator.host}:{group.coordinator.port}",
        "lag": _sum(lag.messages for lag in behind.values()),
        "lag_seconds": max((lag.seconds for lag in behind.values() if lag.seconds is not None), default=None),
        "members": [_member(member) for member in group.members],
        "partitions": [_partition(place, committed=committed, ranges=ranges, behind=behind, owners=owners) for place in places],
    }


def _sum(numbers: Iterable[int | None]) -> int:
    return sum(number for number in numbers if number is not None)


def _member(member: Any) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "client": member.client_id,
        "host": member.host.lstrip("/"),
        "instance": member.group_instance_id or None,
        "partitions": [[place.topic, place.partition] for place in member.assignment.topic_partitions],
    }


def _partition(
    place: Place,
    *,
    committed: Mapping[Place, Committed],
    ranges: Mapping[Place, OffsetRange],
    behind: Mapping[Place, Lag],
    owners: Mapping[Place, str],
) -> dict[str, Any]:
    at, lag = committed.get(place), behind.get(place, UNKNOWN)
    return {
        "topic": place.topic,
        "partition": place.partition,
        "committed": None if at is None else at.offset,
        "latest": ranges[place].latest if place in ranges else None,
        "lag": lag.messages,
        "lag_seconds": lag.seconds,
        "member": owners.get(place),
        "metadata": None if at is None else at.metadata,
    }


def _print(group: Mapping[str, Any]) -> None:
    count = len(group["members"])
    facts = [
        group["group"],
        group["state"],
        f"{group['type']} protocol",
        f"{count} member{'' if count == 1 else 's'}",
        f"lag {group['lag']}",
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
