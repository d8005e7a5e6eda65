"""Partitions of `_audit` that cannot be read on at the moment: their next report is in Avro and the registry does not answer, say.

Such a partition waits, and is tried again after growing pauses; the others go on. It is behind until something of it was taken again.
Pure: the time is given.
"""

from dataclasses import dataclass
from typing import Final

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0


@dataclass(slots=True)
class _Hold:
    not_before: float
    pause_s: float
    is_held: bool = True


class HeldPartitions:
    """Which partitions wait, and until when."""

    def __init__(self) -> None:
        self._holds: dict[int, _Hold] = {}

    def __bool__(self) -> bool:
        return bool(self._holds)

    def is_held(self, partition: int) -> bool:
        """Whether nothing of the partition is to be taken."""
        hold = self._holds.get(partition)
        return hold is not None and hold.is_held

    def is_behind(self, partition: int) -> bool:
        """Whether the partition is held, or nothing of it was taken since."""
        return partition in self._holds

    def hold(self, partition: int, now: float) -> bool:
        """Let the partition wait; True if it was not behind before."""
        known = self._holds.get(partition)
        pause_s = FIRST_PAUSE_S if known is None else min(known.pause_s * 2, LONGEST_PAUSE_S)
        self._holds[partition] = _Hold(now + pause_s, pause_s)
        return known is None

    def due(self, now: float) -> list[int]:
        """Those that are to be tried again; they are not held any more."""
        found = [partition for partition, hold in self._holds.items() if hold.is_held and now >= hold.not_before]
        for partition in found:
            self._holds[partition].is_held = False
        return found

    def took(self, partition: int) -> bool:
        """Something of the partition was taken; True if it was behind until now."""
        return self._holds.pop(partition, None) is not None
