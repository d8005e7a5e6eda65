"""How `millstream cluster reassign --list` shows what is being moved, whoever began it: tables for people, a document for programs."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from millstream.cli.cluster.disks.disk_moves import DiskMoves
from millstream.cli.cluster.planning.plan import DiskMove, Move
from millstream.cli.cluster.planning.plan_output import ids
from millstream.cli.cluster.progress import Progress
from millstream.cli.cluster.throttle import left_by_moves
from millstream.cli.output import format_size, print_json, print_table
from millstream.client.admin.disk_admin import Replica
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from millstream.cli.cluster.operated_cluster import OperatedCluster

NOTHING_MOVES = "Nothing is being moved."
COLUMNS = ("partition", "replicas", "copied to", "deleted on", "copied", "of")
DISK_COLUMNS = ("partition", "broker", "from", "to", "copied", "of")


def list_moves(operated: "OperatedCluster", *, as_json: bool) -> None:
    """What is being moved, to other brokers and other disks, how far it is, and which throttles are set."""
    moves = operated.moves_under_way(operated.admin.under_way())
    sizes = operated.sizes_of_new(moves)
    copied = {move.place: sum(min(sizes.get(broker, {}).get(move.place, 0), move.size_bytes) for broker in move.adding) for move in moves}
    found_on_disks = DiskMoves(operated, operated.disk_moves_under_way())
    between_disks = found_on_disks.look(())
    disk_moves = [move for move in found_on_disks.moves if move.replica in between_disks]
    found = operated.throttles()
    throttles = {str(resource): values for resource, values in found.items()}
    if as_json:
        reassignments = [_document(move, copied[move.place]) for move in moves]
        documents = [_disk_document(move, between_disks[move.replica]) for move in disk_moves]
        print_json({"reassignments": reassignments, "disk_moves": documents, "throttles": throttles})
        return
    if not moves and not disk_moves:
        print(NOTHING_MOVES)
    else:
        _print_under_way(moves, copied, disk_moves, between_disks)
        absent = ({broker for move in moves for broker in move.adding} - sizes.keys()) | found_on_disks.absent
        places = [move.place for move in moves]
        print(f"\n{Progress(moves, disk_moves).at(time.monotonic(), places, sizes, between_disks, absent=absent)}")
    for resource, values in throttles.items():
        print(f"throttled: {resource}: " + ", ".join(f"{name}={value}" for name, value in values.items()))
    if not moves and not disk_moves and left_by_moves(found, moving=()):
        print("Throttles are left over: `millstream cluster reassign --follow` removes them.")


def _print_under_way(
    moves: list[Move], copied: Mapping[TopicPartition, int], disk_moves: list[DiskMove], between_disks: Mapping[Replica, int]
) -> None:
    if moves:
        rows = [
            [
                str(one.place),
                ids(one.before),
                ids(one.adding),
                ids(one.removing),
                format_size(copied[one.place]),
                format_size(one.bytes_to_copy),
            ]
            for one in moves
        ]
        print_table(COLUMNS, rows, right=COLUMNS[4:])
    if moves and disk_moves:
        print()
    if disk_moves:
        rows = [
            [
                str(one.place),
                str(one.replica.broker),
                str(one.before),
                one.after,
                format_size(between_disks[one.replica]),
                format_size(one.size_bytes),
            ]
            for one in disk_moves
        ]
        print_table(DISK_COLUMNS, rows, right=DISK_COLUMNS[4:])


def _disk_document(move: DiskMove, copied_bytes: int) -> dict[str, object]:
    return {
        "topic": move.place.topic,
        "partition": move.place.partition,
        "broker": move.replica.broker,
        "from": move.before,
        "to": move.after,
        "copied_bytes": copied_bytes,
        "bytes": move.size_bytes,
    }


def _document(move: Move, copied_bytes: int) -> dict[str, object]:
    return {
        "topic": move.place.topic,
        "partition": move.place.partition,
        "replicas": list(move.before),
        "target": list(move.after),
        "adding": list(move.adding),
        "removing": list(move.removing),
        "copied_bytes": copied_bytes,
        "bytes": move.bytes_to_copy,
    }
