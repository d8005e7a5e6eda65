"""How far behind groups are, in messages and in seconds.

    lag            end of the partition - committed offset: what is still to be consumed, in offsets. In a compacted topic some of these
                   offsets have no message any more. Where nothing is committed, everything that is there is still to be consumed
    lag in seconds now - timestamp of the first message at or after the committed offset: how long the oldest message that the group has
                   not finished has been waiting. 0 when there is none

The second number needs that message, so it is fetched, one per partition that lags. It trusts the timestamps of the topic (CreateTime is
the producer's clock, LogAppendTime the broker's) and the clock of this machine. A partition whose message did not come in time has no such
number.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from millstream.cli.position import OffsetRange
from millstream.topic_partition import TopicPartition

Waiting = tuple[TopicPartition, int]
"""A partition and the offset of the first message that waits there."""


class Lag(NamedTuple):
    """How far behind the end of a partition a group is; None where it is not known."""

    messages: int | None
    seconds: float | None


class TimestampReader(Protocol):
    """Who knows when messages were written."""

    def timestamps(self, wanted: Collection[Waiting]) -> Mapping[Waiting, int]:
        """In milliseconds, of the first message at or after each offset."""


UNKNOWN = Lag(None, None)


def first_waiting(place: TopicPartition, committed: int | None, ranges: Mapping[TopicPartition, OffsetRange]) -> int | None:
    """The offset from which on messages wait; None if none does, or it is not known."""
    if place not in ranges:
        return None
    earliest, latest = ranges[place]
    start = earliest if committed is None else max(committed, earliest)
    return start if start < latest else None


def lags(
    reader: TimestampReader,
    committed: Mapping[TopicPartition, int | None],
    *,
    ranges: Mapping[TopicPartition, OffsetRange],
    now_ms: int | None = None,
) -> dict[TopicPartition, Lag]:
    """The lag in each partition of a group; `committed` has None where nothing is."""
    return all_lags(reader, [committed], ranges=ranges, now_ms=now_ms)[0]


def all_lags(
    reader: TimestampReader,
    groups: Iterable[Mapping[TopicPartition, int | None]],
    *,
    ranges: Mapping[TopicPartition, OffsetRange],
    now_ms: int | None = None,
) -> list[dict[TopicPartition, Lag]]:
    """The same for several groups, with each message fetched once."""
    of_groups = list(groups)
    wanted = {
        (place, start)
        for committed in of_groups
        for place, offset in committed.items()
        if (start := first_waiting(place, offset, ranges)) is not None
    }
    timestamps = reader.timestamps(sorted(wanted)) if wanted else {}
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    return [
        {place: _lag(place, offset, ranges=ranges, timestamps=timestamps, now_ms=now) for place, offset in committed.items()}
        for committed in of_groups
    ]


def _lag(
    place: TopicPartition,
    committed: int | None,
    *,
    ranges: Mapping[TopicPartition, OffsetRange],
    timestamps: Mapping[Waiting, int],
    now_ms: int,
) -> Lag:
    if place not in ranges:
        return UNKNOWN
    earliest, latest = ranges[place]
    messages = max(latest - (earliest if committed is None else committed), 0)
    start = first_waiting(place, committed, ranges)
    if start is None:
        return Lag(messages, 0.0)
    timestamp = timestamps.get((place, start))
    # A clock that is ahead of ours must not make a message wait a negative time.
    return Lag(messages, max(now_ms - timestamp, 0) / 1000 if timestamp is not None else None)


def total(behind: Iterable[Lag]) -> Lag:
    """The messages of all partitions together, and the longest wait; a partition that is not known is left out."""
    lags_of_all = list(behind)
    known = [lag for lag in lags_of_all if lag.messages is not None]
    if lags_of_all and not known:
        return UNKNOWN
    seconds = [lag.seconds for lag in known if lag.seconds is not None]
    return Lag(sum(lag.messages or 0 for lag in known), max(seconds, default=None if known else 0.0))
