"""`millstream group describe`: who is in a group, who has which partitions, and how far behind each partition is.

A partition is shown if the group has committed an offset for it or a member owns it. How far behind it is:

    lag            end of the partition - committed offset: what is still to be consumed, in offsets. In a compacted topic some of these
                   offsets have no message any more.
    lag in seconds now - timestamp of the first message at or after the committed offset: how long the oldest message that the group has
                   not finished has been waiting. 0 when there is none.

The second number needs that message, so it is fetched, one per partition that lags, by a consumer that joins no group. It trusts the
timestamps of the topic (CreateTime is the producer's clock, LogAppendTime the broker's) and the clock of this machine. A partition whose
message did not come in time has no such number.
"""

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from millstream.cli.group.consumer_groups import Committed, committed_offsets, describe_groups, offset_ranges, state_name, type_name
from millstream.cli.kafka_client import Cluster
from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, GroupNames, Output, OutputFormat
from millstream.cli.start_position import OffsetRange
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

PARTITION_COLUMNS = ("topic", "partition", "committed", "latest", "lag", "lag seconds", "member")
MEMBER_COLUMNS = ("member", "client", "host", "instance", "partitions")
FETCH_SECONDS = 5.0
POLL_SECONDS = 0.2
SETTINGS = {
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": "100",
    "fetch.message.max.bytes": "1024",  # a broker sends the first batch whole however little is asked for; more is not needed
    "queued.max.messages.kbytes": "1024",
    "allow.auto.create.topics": "false",
}


class Lag(NamedTuple):
    """How far behind the end of a partition a committed offset is; None where it is not known."""

    messages: int | None
    seconds: float | None


UNKNOWN = Lag(None, None)


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
        TopicPartition(place.topic, place.partition): member.member_id
        for member in group.members
        for place in member.assignment.topic_partitions
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
    place: TopicPartition,
    *,
    committed: Mapping[TopicPartition, Committed],
    ranges: Mapping[TopicPartition, OffsetRange],
    behind: Mapping[TopicPartition, Lag],
    owners: Mapping[TopicPartition, str],
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


def lags(
    cluster: Cluster,
    committed: Mapping[TopicPartition, Committed],
    *,
    ranges: Mapping[TopicPartition, OffsetRange],
    now_ms: int | None = None,
) -> dict[TopicPartition, Lag]:
    """The lag of each partition with a committed offset."""
    behind = {place: ranges[place].latest - at.offset for place, at in committed.items() if place in ranges}
    starts = {place: max(committed[place].offset, ranges[place].earliest) for place, count in behind.items() if count > 0}
    waiting = {place: start for place, start in starts.items() if start < ranges[place].latest}
    timestamps = _first_timestamps(cluster, waiting)
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    return {place: _lag(place, behind=behind, waiting=waiting, timestamps=timestamps, now_ms=now) for place in committed}


def _lag(
    place: TopicPartition,
    *,
    behind: Mapping[TopicPartition, int],
    waiting: Mapping[TopicPartition, int],
    timestamps: Mapping[TopicPartition, int],
    now_ms: int,
) -> Lag:
    if place not in behind:
        return UNKNOWN
    messages = max(behind[place], 0)
    if place not in waiting:
        return Lag(messages, 0.0)
    timestamp = timestamps.get(place, -1)
    # A clock that is ahead of ours must not make a message wait a negative time.
    return Lag(messages, max(now_ms - timestamp, 0) / 1000 if timestamp >= 0 else None)


def _first_timestamps(cluster: Cluster, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Timestamp of the first message from each offset on, as far as they arrive within a few seconds."""
    if not starts:
        return {}
    consumer = cluster.consumer(SETTINGS)
    try:
        with cluster.plain_errors("reading the first messages that wait"):
            return _read(consumer, starts)
    finally:
        consumer.close()


def _read(consumer: "Consumer", starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    import confluent_kafka

    found: dict[TopicPartition, int] = {}
    consumer.assign([confluent_kafka.TopicPartition(*place, start) for place, start in starts.items()])
    deadline = time.monotonic() + FETCH_SECONDS
    while len(found) < len(starts) and time.monotonic() < deadline:
        message = consumer.poll(POLL_SECONDS)
        if message is None or message.error() is not None:
            continue
        place = TopicPartition(message.topic() or "", message.partition() or 0)
        if place not in found:
            found[place] = message.timestamp()[1]
            consumer.pause([confluent_kafka.TopicPartition(*place)])
    return found


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
