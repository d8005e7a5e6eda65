"""`millstream group seek`: move the committed offsets of a group that has no members.

Where to is said as in `millstream consume`: `-o earliest`, `latest`, N, -N (the last N), @TIME; or `--by N`, a shift from what is
committed, forward or back. The result never lies outside of the partition. A dry run unless `--execute` is given.

A group with members refuses to be moved, since they would commit their own positions over it; that is said before anything is changed.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from millstream.cli.group.consumer_groups import Committed, committed_offsets, find_group, offset_ranges, offsets_for_time
from millstream.cli.kafka_client import REQUEST_SECONDS, Cluster, plain
from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, Execute, GroupName, Output, OutputFormat
from millstream.cli.start_position import OffsetRange, Start, StartPosition, parse_start_position
from millstream.errors import CommandFailed, UsageError
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

COLUMNS = ("topic", "partition", "from", "to", "change")


class Move(NamedTuple):
    """What a seek does to one partition; `old` is None where nothing was committed."""

    place: TopicPartition
    old: int | None
    new: int


def seek(
    group: GroupName,
    *,
    offset: Annotated[
        str | None, typer.Option("-o", "--offset", metavar="OFFSET", help="Where to: earliest, latest, N, -N (the last N), @TIME.")
    ] = None,
    by: Annotated[int | None, typer.Option("--by", metavar="N", help="Shift what is committed by N messages, back if negative.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option("-t", "--topic", help="Only this topic; repeatable.", show_default="all with committed offsets")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("-p", "--partition", help="Only this partition; repeatable.", show_default="all")
    ] = None,
    execute: Execute = False,
    brokers: Brokers = DEFAULT_BROKERS,
    output: OutputFormat = Output.TABLE,
    client_options: ClientOptions = None,
) -> None:
    """Move the committed offsets of a group; only shows what would be done, unless --execute is given."""
    if (offset is None) == (by is None):
        raise UsageError("Say where to: either -o OFFSET (earliest, latest, N, -N, @TIME) or --by N.")
    target = None if offset is None else parse_start_position(offset)
    cluster = Cluster.of(brokers, client_options)
    admin = cluster.admin()
    members = _member_count(cluster, admin, group=group, may_be_new=bool(topic) and by is None)
    committed = committed_offsets(cluster, admin, group=group)
    places = _chosen(cluster, admin, committed=committed, topics=topic or [], partitions=partition or [], group=group)
    if by is None:
        assert target is not None
        moves = _moves_to(cluster, admin, target, places=places, committed=committed)
    else:
        moves = _moves_by(cluster, admin, by, places=places, committed=committed)
    if execute and members:
        raise CommandFailed(f"The group {group!r} at {cluster.brokers} has {members} members: stop them first, then seek.")
    if execute:
        _commit(cluster, admin, group=group, moves=moves)
    _show(moves, output=output)
    if not execute:
        busy = f" The group has {members} members, which must be stopped first." if members else ""
        print(f"Nothing was changed: repeat with --execute to commit these offsets.{busy}", file=sys.stderr)


def _member_count(cluster: Cluster, admin: "AdminClient", *, group: str, may_be_new: bool) -> int:
    found = find_group(cluster, admin, name=group)
    if found is None and not may_be_new:
        advice = "`millstream group list` shows those that exist, and -t TOPIC with -o makes a new one."
        raise CommandFailed(f"There is no group {group!r} at {cluster.brokers}: {advice}")
    return 0 if found is None else len(found.members)


def _chosen(
    cluster: Cluster,
    admin: "AdminClient",
    *,
    committed: Mapping[TopicPartition, Committed],
    topics: Sequence[str],
    partitions: Sequence[int],
    group: str,
) -> list[TopicPartition]:
    """The partitions to move: of the named topics all, otherwise those with a committed offset."""
    if topics:
        existing = {name: cluster.existing_topic(admin, name).partitions for name in topics}
        for name, numbers in existing.items():
            if missing := set(partitions) - set(numbers):
                raise CommandFailed(f"The topic {name!r} has no partition {min(missing)}: it has {len(numbers)}.")
        candidates = [TopicPartition(name, number) for name, numbers in existing.items() for number in numbers]
    else:
        candidates = list(committed)
    chosen = sorted(place for place in candidates if not partitions or place.partition in partitions)
    if not chosen:
        raise CommandFailed(f"The group {group!r} has no committed offset to move there: name a topic with -t TOPIC.")
    return chosen


def _moves_to(
    cluster: Cluster,
    admin: "AdminClient",
    target: StartPosition,
    *,
    places: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
) -> list[Move]:
    ranges = _ranges(cluster, admin, places=places)
    if target.kind is not Start.TIME:
        new = {place: target.offset_in(ranges[place]) for place in places}
    else:
        found = offsets_for_time(cluster, admin, places=places, timestamp_ms=target.number)
        new = {place: found[place] if found[place] >= 0 else ranges[place].latest for place in places}
    return [Move(place, committed[place].offset if place in committed else None, new[place]) for place in places]


def _moves_by(
    cluster: Cluster, admin: "AdminClient", shift: int, *, places: Sequence[TopicPartition], committed: Mapping[TopicPartition, Committed]
) -> list[Move]:
    ranges = _ranges(cluster, admin, places=places)
    for place in places:
        if place not in committed:
            raise CommandFailed(f"Nothing is committed for {place}, so there is nothing to shift: choose an offset with -o.")
    olds = {place: committed[place].offset for place in places}
    return [Move(place, old, StartPosition(Start.OFFSET, old + shift).offset_in(ranges[place])) for place, old in olds.items()]


def _ranges(cluster: Cluster, admin: "AdminClient", *, places: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
    ranges = offset_ranges(cluster, admin, places=places)
    for place in places:
        if place not in ranges:
            raise CommandFailed(f"The partition {place} does not exist any more at {cluster.brokers}: choose topics with -t.")
    return ranges


def _commit(cluster: Cluster, admin: "AdminClient", *, group: str, moves: Sequence[Move]) -> None:
    import confluent_kafka

    offsets = [confluent_kafka.TopicPartition(*move.place, move.new) for move in moves]
    wanted = confluent_kafka.ConsumerGroupTopicPartitions(group, offsets)
    with cluster.plain_errors(f"moving the group {group!r}"):
        done = admin.alter_consumer_group_offsets([wanted], request_timeout=REQUEST_SECONDS)[group].result()
    failed = [f"{place.topic}-{place.partition}: {plain(place.error)}" for place in done.topic_partitions if place.error is not None]
    if failed:
        raise CommandFailed(f"At {cluster.brokers} not every offset of {group!r} was committed: {'; '.join(failed)}.")


def _show(moves: Sequence[Move], *, output: Output) -> None:
    rows = [
        {
            "topic": move.place.topic,
            "partition": move.place.partition,
            "from": move.old,
            "to": move.new,
            "change": None if move.old is None else move.new - move.old,
        }
        for move in moves
    ]
    if output is Output.JSON:
        print_json(rows)
    else:
        print_table(COLUMNS, [["-" if cell is None else cell for cell in row.values()] for row in rows])
