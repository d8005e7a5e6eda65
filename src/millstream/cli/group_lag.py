"""How far behind a group is, in messages and in seconds.

    lag            end of the partition - committed offset: what is still to be consumed, in offsets. In a compacted topic some of these
                   offsets have no message any more.
    lag in seconds now - timestamp of the first message at or after the committed offset: how long the oldest message that the group has
                   not finished has been waiting. 0 when there is none.

The second number needs that message, so it is fetched, one per partition that lags, by a consumer that joins no group. It trusts the
timestamps of the topic (CreateTime is the producer's clock, LogAppendTime the broker's) and the clock of this machine. A partition whose
message did not come in time has no such number.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from millstream.cli.consumer_groups import Committed, Place
from millstream.cli.kafka_client import Cluster
from millstream.cli.start_position import OffsetRange

if TYPE_CHECKING:
    from confluent_kafka import Consumer

FETCH_SECONDS = 5.0
POLL_SECONDS = 0.2
SETTINGS = {
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": "100",
    "fetch.message.max.bytes": "1024",  # a broker sends the first batch whole however little is asked for; more is not needed
    "queued.max.messages.kbytes": "1024",
    "allow.auto.create.topics": "false",
}


class Lag(NamedTuple):
    """How far behind the end of a partition a committed offset is; None where it is not known."""

    messages: int | None
    seconds: float | None


UNKNOWN = Lag(None, None)


def lags(
    cluster: Cluster, committed: Mapping[Place, Committed], *, ranges: Mapping[Place, OffsetRange], now_ms: int | None = None
) -> dict[Place, Lag]:
    """The lag of each partition with a committed offset."""
    behind = {place: ranges[place].latest - at.offset for place, at in committed.items() if place in ranges}
    starts = {place: max(committed[place].offset, ranges[place].earliest) for place, count in behind.items() if count > 0}
    waiting = {place: start for place, start in starts.items() if start < ranges[place].latest}
    timestamps = _first_timestamps(cluster, waiting)
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    return {place: _lag(place, behind=behind, waiting=waiting, timestamps=timestamps, now_ms=now) for place in committed}


def _lag(place: Place, *, behind: Mapping[Place, int], waiting: Mapping[Place, int], timestamps: Mapping[Place, int], now_ms: int) -> Lag:
    if place not in behind:
        return UNKNOWN
    messages = max(behind[place], 0)
    if place not in waiting:
        return Lag(messages, 0.0)
    timestamp = timestamps.get(place, -1)
    # A clock that is ahead of ours must not make a message wait a negative time.
    return Lag(messages, max(now_ms - timestamp, 0) / 1000 if timestamp >= 0 else None)


def _first_timestamps(cluster: Cluster, starts: Mapping[Place, int]) -> dict[Place, int]:
    """Timestamp of the first message from each offset on, as far as they arrive within a few seconds."""
    if not starts:
        return {}
    consumer = cluster.consumer(SETTINGS)
    try:
        with cluster.told_plainly("reading the first messages that wait"):
            return _read(consumer, starts)
    finally:
        consumer.close()


def _read(consumer: "Consumer", starts: Mapping[Place, int]) -> dict[Place, int]:
    from confluent_kafka import TopicPartition

    found: dict[Place, int] = {}
    consumer.assign([TopicPartition(*place, start) for place, start in starts.items()])
    deadline = time.monotonic() + FETCH_SECONDS
    while len(found) < len(starts) and time.monotonic() < deadline:
        message = consumer.poll(POLL_SECONDS)
        if message is None or message.error() is not None:
            continue
        place = Place(message.topic() or "", message.partition() or 0)
        if place not in found:
            found[place] = message.timestamp()[1]
            consumer.pause([TopicPartition(*place)])
    return found
