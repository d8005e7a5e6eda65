"""What is being moved in a cluster, whoever began it: followed to its end, or taken back."""

import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from millstream.admin_errors import NoReassignmentInProgress, ReplicaNotAvailable
from millstream.cli.cluster.confirmation import confirm
from millstream.cli.cluster.disks.disk_moves import DiskMoves
from millstream.cli.cluster.ending import finish, remove_throttles
from millstream.cli.cluster.execution import Manner, say_what_is_left
from millstream.cli.cluster.moves_list import NOTHING_MOVES
from millstream.cli.cluster.planning.plan import DiskMove, Move
from millstream.cli.cluster.planning.plan_output import count, print_disk_moves, print_moves
from millstream.cli.cluster.throttle import DISK_RATE, left_by_moves
from millstream.errors import CommandFailed, MillstreamError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from millstream.cli.cluster.operated_cluster import OperatedCluster
    from millstream.client.admin.config_admin import Resource

CANCEL_SECONDS = 30.0
GONE = (ReplicaNotAvailable, UnknownTopicOrPartition)


def follow_moves(operated: "OperatedCluster") -> None:
    """Wait for the end of all that is being moved, then remove the throttles that moves set."""
    moves = operated.moves_under_way(operated.admin.under_way())
    disk_moves = operated.disk_moves_under_way()
    found = operated.throttles()
    throttles = _of_moves(found, moves)
    if moves or disk_moves:
        try:
            removed = finish(operated, moves, DiskMoves(operated, disk_moves), throttles)
        except (KeyboardInterrupt, OSError):
            say_what_is_left(operated, is_throttled=bool(throttles))
            raise
    else:
        removed = remove_throttles(operated, throttles)
        print(NOTHING_MOVES)
    _say_what_was_removed(found, throttles, removed)


def cancel_moves(operated: "OperatedCluster", topics: list[str], manner: Manner) -> None:
    """Take back what is being moved, of some topics or all: new replicas and copies are deleted, the others stay."""
    operated.places_of(topics)
    moves = [move for move in operated.moves_under_way(operated.admin.under_way()) if not topics or move.place.topic in topics]
    disk_moves = [move for move in operated.disk_moves_under_way() if not topics or move.place.topic in topics]
    places = {move.place for move in moves} | {move.place for move in disk_moves}
    if not places:
        print(NOTHING_MOVES)
        return
    if moves:
        print_moves([Move(move.place, (*move.before, *move.adding), move.before, move.size_bytes) for move in moves])
    if disk_moves:
        print_disk_moves([DiskMove(move.replica, move.after, move.before or "", move.size_bytes) for move in disk_moves])
    if manner.dry_run:
        print("Nothing was changed: this was a dry run.")
        return
    if not confirm(f"Take back the moves of {count(len(places), 'partition')}?", yes=manner.yes):
        return
    arrived = _take_back(operated, moves, disk_moves)
    if not operated.admin.under_way() and not operated.disk_moves_under_way():
        found = operated.throttles()
        throttles = _of_moves(found, moves)
        _say_what_was_removed(found, throttles, remove_throttles(operated, throttles))
    print(f"taken back: {count(len(places) - arrived, 'partition')}" + (f"; {arrived} had arrived" if arrived else ""))


def _take_back(operated: "OperatedCluster", moves: list[Move], disk_moves: list[DiskMove]) -> int:
    """How many partitions had arrived before they could be taken back."""
    refused = operated.admin.alter({move.place: None for move in moves}) if moves else {}
    failed: dict[object, MillstreamError] = {
        place: error for place, error in refused.items() if not isinstance(error, NoReassignmentInProgress)
    }
    # What has gone meanwhile moves no more.
    failed.update({replica: error for replica, error in DiskMoves(operated, disk_moves).take_back().items() if not isinstance(error, GONE)})
    if failed:
        what, error = min(failed.items(), key=lambda item: str(item[0]))
        raise CommandFailed(f"At {operated.brokers} {count(len(failed), 'partition')} could not be taken back; {what}: {error}.")
    _await_end(operated, moves)
    return len(refused)


def _await_end(operated: "OperatedCluster", moves: list[Move]) -> None:
    until = time.monotonic() + CANCEL_SECONDS
    while any(move.place in operated.admin.under_way() for move in moves) and time.monotonic() < until:
        time.sleep(0.1)


def _of_moves(found: "Mapping[Resource, Mapping[str, str]]", moves: Iterable[Move]) -> "dict[Resource, list[str]]":
    return left_by_moves(found, moving={move.place.topic for move in moves})


def _say_what_was_removed(
    found: "Mapping[Resource, Mapping[str, str]]", throttles: "Mapping[Resource, Collection[str]]", removed: "Collection[Resource]"
) -> None:
    if removed:
        print(f"removed the throttles of {', '.join(_throttle_name(one, throttles[one], found[one]) for one in removed)}")
    kept = [str(one) for one, values in found.items() if not values.keys() <= set(throttles.get(one, ()))]
    if kept:
        print(f"left the throttles of {', '.join(kept)}: a topic that names all its replicas (*) is throttled for good")


def _throttle_name(resource: "Resource", removed: Collection[str], values: Collection[str]) -> str:
    """A broker may keep its rates but for that of its disks."""
    return f"{resource} ({DISK_RATE})" if set(removed) == {DISK_RATE} != set(values) else str(resource)
