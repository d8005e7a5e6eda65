"""The end of moves that were begun: they are followed, throttles are removed, the preferred replicas lead, and what became of it is said.

A partition that is deleted meanwhile, with its topic, is no failure; it is counted apart.
"""

import sys
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from millstream.cli.cluster.disks.disk_moves import DiskMoves
from millstream.cli.cluster.following import Follower, follow
from millstream.cli.cluster.planning.plan import DiskMove, Move
from millstream.cli.cluster.planning.plan_output import count, names_were
from millstream.cli.output import format_size
from millstream.client.admin.reassignment_admin import PREFERRED
from millstream.client.errors import BrokerUnavailable
from millstream.errors import CommandFailed, MillstreamError
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from millstream.cli.cluster.operated_cluster import OperatedCluster
    from millstream.client.admin.config_admin import Resource
    from millstream.client.codecs.metadata import PartitionMetadata

METADATA_SECONDS = 15.0


def finish(
    operated: "OperatedCluster", moves: Collection[Move], between_disks: DiskMoves, throttles: "Mapping[Resource, Collection[str]]"
) -> "list[Resource]":
    """Follow moves that were begun to their end, and leave no throttle behind; returns those that had one removed."""
    started = time.monotonic()
    try:
        follow(Follower(operated, moves, between_disks))
    except MillstreamError as error:
        raise CommandFailed(f"{str(error).rstrip('.')}. {how_to_go_on(is_throttled=bool(throttles))}") from error
    removed = remove_throttles(operated, throttles)
    elsewhere = _await_targets(operated, moves, between_disks)
    if elsewhere:
        raise CommandFailed(f"{names_were(elsewhere)} not where the plan wanted: it was cancelled, or planned anew, by another command.")
    if moves:
        operated.admin.elect([move.place for move in moves], kind=PREFERRED)
    failed = {replica: reason for replica, reason in between_disks.failed.items() if _found(operated, replica.place) is not None}
    if failed:
        replica, reason = min(failed.items())
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise CommandFailed(f"Not in the data directory that the plan wanted: {replica}{more}; {reason.rstrip('.')}.")
    _say_what_was_moved(operated, [*moves, *between_disks.moves], time.monotonic() - started)
    return removed


def remove_throttles(operated: "OperatedCluster", throttles: "Mapping[Resource, Collection[str]]") -> "list[Resource]":
    """Remove throttles; what could not be is said, and does not stop anything. Returns those that are gone."""
    left = operated.remove_throttles(throttles)
    for resource, error in left.items():
        reason = "does not answer and" if isinstance(error, BrokerUnavailable) else f"({error})"
        print(f"{resource} {reason} keeps its throttle: `millstream cluster reassign --follow` removes it later", file=sys.stderr)
    return [resource for resource in throttles if resource not in left]


def how_to_go_on(*, is_throttled: bool) -> str:
    """What to do about moves that were begun, and that this command does not wait for."""
    throttle = " and then removes the throttle, which stays until then" if is_throttled else ""
    return (
        f"The cluster goes on with it: `millstream cluster reassign --follow` waits for the end{throttle}, "
        "`millstream cluster reassign --cancel` takes it back."
    )


def _await_targets(operated: "OperatedCluster", moves: Collection[Move], between_disks: DiskMoves) -> list[TopicPartition]:
    """The partitions that are elsewhere than planned; brokers hear of the end, and of a deletion, a little later than the controller."""
    until = time.monotonic() + METADATA_SECONDS
    topics = {move.place.topic for move in moves} | {move.place.topic for move in between_disks.moves}
    while True:
        operated.cluster.refresh(topics)
        wrong = [move.place for move in moves if (known := _found(operated, move.place)) is not None and known.replicas != move.after]
        is_deleting = any(
            (known := _found(operated, replica.place)) is not None and replica.broker in known.replicas for replica in between_disks.gone
        )
        if not (wrong or is_deleting) or time.monotonic() > until:
            return wrong
        time.sleep(0.1)


def _found(operated: "OperatedCluster", place: TopicPartition) -> "PartitionMetadata | None":
    """The partition as the brokers know it, or did when they were last asked."""
    return operated.cluster.metadata.topics[place.topic].partitions.get(place.partition)


def _say_what_was_moved(operated: "OperatedCluster", moves: Iterable[Move | DiskMove], seconds: float) -> None:
    moved: set[TopicPartition] = set()
    deleted: set[TopicPartition] = set()
    copied = 0
    for move in moves:
        if _found(operated, move.place) is None:
            deleted.add(move.place)
        else:
            moved.add(move.place)
            copied += move.bytes_to_copy
    print(f"done: {count(len(moved), 'partition')}, {format_size(copied)} copied in {seconds:.1f} s")
    if deleted:
        print(f"deleted meanwhile, with its topic: {count(len(deleted), 'partition')}")
