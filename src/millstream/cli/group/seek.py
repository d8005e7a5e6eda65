"""`millstream group seek`: move the committed offsets of a group, one of Kafka's or one of the paper's.

Where to is said as in every command (`position`): `earliest`, `latest`, N, -N (the last N), -24h, @TIME; or with `--by N`, a shift from
what is committed, forward or back. Every partition of the topics that the group reads is moved, also one without a committed offset. The
result never lies outside of the partition. A dry run unless `--execute` is given.

A group of Kafka's with members refuses to be moved, since they would commit their own positions over it; that is said before anything is
changed. The paper's consumers notice that their offset was written by another with their next commit, and go on from there.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from millstream.cli.group.consumer_groups import offset_ranges, offsets_for_time
from millstream.cli.group.known_group import Groups, GroupType, KnownGroup
from millstream.cli.group.paper_groups import Zookeeper
from millstream.cli.kafka_client import REQUEST_SECONDS, Cluster, plain
from millstream.cli.output import print_json, print_table
from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions, Execute, GroupName, Output, OutputFormat
from millstream.cli.position import HELP, OffsetRange, Position, PositionKind, parse_position
from millstream.errors import CommandFailed, UsageError
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

COLUMNS = ("topic", "partition", "from", "to", "change")
ChosenType = Annotated[
    GroupType | None, typer.Option("--type", help="Which one, if the name stands for a group of Kafka's and one of the paper's.")
]


class Move(NamedTuple):
    """What a seek does to one partition; `old` is None where nothing was committed."""

    place: TopicPartition
    old: int | None
    new: int


def seek(
    name: GroupName,
    position: Annotated[str | None, typer.Argument(metavar="POSITION", help=f"Where to: {HELP}", show_default=False)] = None,
    *,
    by: Annotated[int | None, typer.Option("--by", metavar="N", help="Shift what is committed by N messages, back if negative.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option("-t", "--topic", help="Only this topic; repeatable.", show_default="all that the group reads")
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("-p", "--partition", help="Only this partition; repeatable.", show_default="all")
    ] = None,
    chosen_type: ChosenType = None,
    execute: Execute = False,
    zookeeper: Zookeeper = None,
    brokers: Brokers = DEFAULT_BROKERS,
    output: OutputFormat = Output.TABLE,
    client_options: ClientOptions = None,
) -> None:
    """Move the committed offsets of a group; only shows what would be done, unless --execute is given."""
    if (position is None) == (by is None):
        raise UsageError("Say where to: either a position (earliest, latest, N, -N, -24h, @TIME) or --by N.")
    target = None if position is None else parse_position(position, "POSITION")
    cluster = Cluster.of(brokers, client_options)
    groups = Groups(cluster, zookeeper)
    group = _group(groups, name, chosen_type, may_be_new=bool(topic) and by is None)
    places = _chosen(groups, group, topics=topic or [], partitions=partition or [])
    if by is None:
        assert target is not None
        moves = _moves_to(cluster, groups.admin, target, places=places, committed=group.committed)
    else:
        moves = _moves_by(cluster, groups.admin, by, places=places, committed=group.committed)
    if execute:
        _execute(groups, group, moves)
    _show(moves, output=output)
    print(_remark(group, is_done=execute), end="", file=sys.stderr)


def _group(groups: Groups, name: str, chosen: GroupType | None, *, may_be_new: bool) -> KnownGroup:
    found = groups.one(name, chosen)
    if found is not None:
        return found
    if not may_be_new:
        raise CommandFailed(groups.missing(name, chosen) + " With -t TOPIC a new one is made.")
    return KnownGroup(name, GroupType.PAPER if chosen is GroupType.PAPER else GroupType.CLASSIC, "empty")


def _execute(groups: Groups, group: KnownGroup, moves: Sequence[Move]) -> None:
    if group.is_paper:
        if groups.paper is None:
            raise UsageError("The paper's groups are in ZooKeeper: say where with --zookeeper HOST:PORT.")
        groups.paper.move(group.name, {move.place: move.new for move in moves})
        return
    if group.members:
        where = f"The group {group.name!r} at {groups.cluster.brokers}"
        raise CommandFailed(f"{where} has {group.size}: stop what reads with it, then seek.")
    _commit(groups.cluster, groups.admin, group=group.name, moves=moves)


def _remark(group: KnownGroup, *, is_done: bool) -> str:
    if is_done:
        live = f"What reads with it ({group.size}) goes on from there with its next commit.\n"
        return live if group.is_paper and group.members else ""
    busy = f" The group has {group.size}: stop first what reads with it." if group.members and not group.is_paper else ""
    return f"Nothing was changed: repeat with --execute to commit these offsets.{busy}\n"


def _chosen(groups: Groups, group: KnownGroup, *, topics: Sequence[str], partitions: Sequence[int]) -> list[TopicPartition]:
    """The partitions to move: all of the named topics, otherwise all of the topics that the group reads."""
    if topics:
        existing = {name: groups.cluster.existing_topic(groups.admin, name).partitions for name in topics}
        for name, numbers in existing.items():
            if missing := set(partitions) - set(numbers):
                raise CommandFailed(f"The topic {name!r} has no partition {min(missing)}: it has {len(numbers)}.")
        candidates = [TopicPartition(name, number) for name, numbers in existing.items() for number in numbers]
    else:
        candidates = group.places(groups.partitions)
    chosen = sorted(place for place in candidates if not partitions or place.partition in partitions)
    if not chosen:
        raise CommandFailed(f"The group {group.name!r} reads nothing there that could be moved: name a topic with -t TOPIC.")
    return chosen


def _moves_to(
    cluster: Cluster,
    admin: "AdminClient",
    target: Position,
    *,
    places: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> list[Move]:
    ranges = _ranges(cluster, admin, places=places)
    if target.kind is not PositionKind.TIME:
        new = {place: target.offset_in(ranges[place]) for place in places}
    else:
        found = offsets_for_time(cluster, admin, places=places, timestamp_ms=target.number)
        new = {place: found[place] if found[place] >= 0 else ranges[place].latest for place in places}
    return [Move(place, committed.get(place), new[place]) for place in places]


def _moves_by(
    cluster: Cluster, admin: "AdminClient", shift: int, *, places: Sequence[TopicPartition], committed: Mapping[TopicPartition, int]
) -> list[Move]:
    ranges = _ranges(cluster, admin, places=places)
    olds = {place: committed[place] for place in places if place in committed}
    if not olds:
        raise CommandFailed("Nothing is committed there, so there is nothing to shift: choose a position instead of --by.")
    return [Move(place, old, Position(PositionKind.OFFSET, old + shift).offset_in(ranges[place])) for place, old in olds.items()]


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
