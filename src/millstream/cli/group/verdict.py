"""How a group is, in one word, from what it had committed at two moments. Pure.

    ok      it has read everything, or is at most ten seconds behind, or its lag falls
    slow    it moves, and its lag does not fall
    stuck   it has members and lag, and none of its offsets moved
    dead    it has no members and lag, and none of its offsets moved
    unknown not enough has been answered, or it was not watched

A consumer commits every five seconds by default, so a group is watched a little longer than that before it is called stuck or dead; `group
list` watches only groups for which that makes a difference. Mirrors, loads into a lake, and stream processors that keep their partitions
themselves commit without being members: they live as long as they move.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from millstream.topic_partition import TopicPartition

ALLOWED_SECONDS: Final = 10.0
OBSERVE_SECONDS: Final = 6.0
"""A little more than clients wait between two commits by default."""


class Word(StrEnum):
    """How a group is."""

    OK = "ok"
    SLOW = "slow"
    STUCK = "stuck"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Progress:
    """What a group had done at one moment; the lags are None where they are not known."""

    members: int
    lag: int | None
    lag_seconds: float | None
    committed: Mapping[TopicPartition, int]


def word_at_once(now: Progress) -> Word | None:
    """The word that can be said without waiting; None if the group has to be watched."""
    if now.lag is None:
        return Word.UNKNOWN
    if now.lag == 0:
        return Word.OK
    return Word.OK if now.members and _is_close(now) else None


def has_moved(before: Progress, now: Progress) -> bool:
    """Whether the group committed anything in between."""
    return before.committed != now.committed


def word(before: Progress, now: Progress) -> Word:
    """How the group is, after it was watched."""
    at_once = word_at_once(now)
    if at_once is not None:
        return at_once
    if not has_moved(before, now):
        return Word.STUCK if now.members else Word.DEAD
    is_falling = before.lag is not None and now.lag is not None and now.lag < before.lag
    return Word.OK if is_falling or _is_close(now) else Word.SLOW


def _is_close(now: Progress) -> bool:
    return now.lag_seconds is not None and now.lag_seconds <= ALLOWED_SECONDS
