"""How far a plan is: partitions and bytes that have arrived, how fast, and how long it will still take. Pure.

A partition that is no longer under way counts whole. One that is counts with what its new replicas have, as far as that is known, and never
with more than was planned: while it is being copied it may grow. What moves between the disks of a broker counts the same way.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from millstream.cli.cluster.planning.plan import DiskMove, Move
from millstream.cli.output import format_seconds, format_size
from millstream.client.admin.disk_admin import Replica
from millstream.topic_partition import TopicPartition

WINDOW_S = 30.0
"""The rate is that of the last so many seconds."""


@dataclass(frozen=True)
class Standing:
    """How far it was at one moment."""

    partitions_done: int
    partitions: int
    bytes_done: int
    bytes_to_copy: int
    rate: float | None
    seconds_left: float | None
    absent: tuple[int, ...] = ()
    """Brokers that do not answer, and without which it does not end."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is under way any more."""
        return self.partitions_done == self.partitions

    def __str__(self) -> str:
        parts = [f"{self.partitions_done} of {self.partitions} partitions"]
        if self.bytes_to_copy:
            parts.append(f"{format_size(self.bytes_done)} of {format_size(self.bytes_to_copy)}")
        if self.rate is not None and not self.is_done:
            parts.append(f"{format_size(self.rate)}/s")
        if self.seconds_left is not None:
            parts.append(f"about {format_seconds(self.seconds_left)} left")
        if self.absent:
            parts.append(f"waiting for {_brokers(self.absent)} answer")
        return ", ".join(parts)


class Progress:
    """Follows some moves from when they were begun, or from when they were found under way."""

    def __init__(self, moves: Iterable[Move], disk_moves: Iterable[DiskMove] = ()) -> None:
        self._moves = {move.place: move for move in moves}
        self._disk_moves = {move.replica: move for move in disk_moves}
        self._partitions = len({*self._moves, *(replica.place for replica in self._disk_moves)})
        self._bytes_to_copy = sum(move.bytes_to_copy for move in self._moves.values())
        self._bytes_to_copy += sum(move.bytes_to_copy for move in self._disk_moves.values())
        self._seen: deque[tuple[float, int]] = deque()

    def at(
        self,
        now_s: float,
        under_way: Collection[TopicPartition],
        sizes: Mapping[int, Mapping[TopicPartition, int]],
        between_disks: Mapping[Replica, int] | None = None,
        *,
        absent: Collection[int] = (),
    ) -> Standing:
        """How far it is now.

        `sizes` is what brokers have of the partitions under way, `between_disks` the same of what changes disks; brokers that are `absent`
        do not answer.
        """
        moving = [move for place, move in self._moves.items() if place in under_way]
        missing = sum(max(move.size_bytes - sizes.get(broker, {}).get(move.place, 0), 0) for move in moving for broker in move.adding)
        copied = between_disks or {}
        missing += sum(max(self._disk_moves[replica].bytes_to_copy - size, 0) for replica, size in copied.items())
        left = len({*(move.place for move in moving), *(replica.place for replica in copied)})
        bytes_done = self._bytes_to_copy - missing
        self._seen.append((now_s, bytes_done))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()
        rate = self._rate()
        seconds_left = missing / rate if rate and left else None
        needed = {broker for move in moving for broker in move.adding} | {replica.broker for replica in copied}
        return Standing(
            partitions_done=self._partitions - left,
            partitions=self._partitions,
            bytes_done=bytes_done,
            bytes_to_copy=self._bytes_to_copy,
            rate=rate,
            seconds_left=seconds_left,
            absent=tuple(sorted(needed.intersection(absent))),
        )

    def _rate(self) -> float | None:
        (first_s, first_bytes), (last_s, last_bytes) = self._seen[0], self._seen[-1]
        return max(last_bytes - first_bytes, 0) / (last_s - first_s) if last_s > first_s else None


def _brokers(absent: Collection[int]) -> str:
    names = ", ".join(map(str, absent))
    return f"broker {names}, which does not" if len(absent) == 1 else f"brokers {names}, which do not"
