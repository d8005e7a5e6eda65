"""Watches moves until none is under way: a bar on a terminal, in a pipe a line from time to time."""

import sys
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from millstream.cli.cluster.disks.disk_moves import DiskMoves
from millstream.cli.cluster.planning.plan import Move
from millstream.cli.cluster.progress import Progress, Standing

if TYPE_CHECKING:
    from millstream.cli.cluster.operated_cluster import OperatedCluster

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0
LINE_EVERY_S = 5.0


class Follower:
    """Asks how far some moves are."""

    def __init__(self, operated: "OperatedCluster", moves: Collection[Move], between_disks: DiskMoves) -> None:
        self._operated = operated
        self._moves = moves
        self._between_disks = between_disks
        self._progress = Progress(moves, between_disks.moves)

    def look(self) -> Standing:
        """Where they stand now."""
        under_way = self._operated.admin.under_way() if self._moves else {}
        moving = [move for move in self._moves if move.place in under_way]
        sizes = self._operated.sizes_of_new(moving)
        between_disks = self._between_disks.look(under_way) if self._between_disks.moves else {}
        absent = ({broker for move in moving for broker in move.adding} - sizes.keys()) | self._between_disks.absent
        return self._progress.at(time.monotonic(), under_way.keys(), sizes, between_disks, absent=absent)


def follow(follower: Follower) -> None:
    """Until nothing is under way."""
    if sys.stdout.isatty():
        _draw(follower)
    else:
        _print_lines(follower)


def _print_lines(follower: Follower) -> None:
    pause_s, printed_s = FIRST_PAUSE_S, float("-inf")
    while not (standing := follower.look()).is_done:
        if time.monotonic() - printed_s >= LINE_EVERY_S:
            print(f"moving: {standing}", flush=True)
            printed_s = time.monotonic()
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)


def _draw(follower: Follower) -> None:
    from rich.progress import BarColumn, Progress, TextColumn

    from millstream.cli.output import console

    pause_s = FIRST_PAUSE_S
    with Progress(TextColumn("moving"), BarColumn(), TextColumn("{task.description}"), console=console(), transient=True) as bar:
        task = bar.add_task("", total=None)
        while not (standing := follower.look()).is_done:
            total, done = (
                (standing.bytes_to_copy, standing.bytes_done) if standing.bytes_to_copy else (standing.partitions, standing.partitions_done)
            )
            bar.update(task, description=str(standing), total=total, completed=done)
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
