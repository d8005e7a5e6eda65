"""How large topics are, how fast they grow, and when they were last written to.

The rate of a topic is how many offsets it has gained since it was last asked; the first time, how many the records of the last minute have
taken, by their timestamps, which the brokers look up in their indexes. The last write is the largest timestamp that there is. Timestamps
are the producers' unless the topic has `message.timestamp.type=LogAppendTime`.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from millstream.cli.partition_reader import PartitionReader
from millstream.offset import EARLIEST, LATEST, MAX_TIMESTAMP
from millstream.topic_partition import TopicPartition

RATE_WINDOW_MS: Final = 60_000


class Figures(NamedTuple):
    """What is known about a topic; None where no broker has said it."""

    messages: int | None = None
    size_bytes: int | None = None
    per_second: float | None = None
    last_write_ms: int | None = None


class TopicFigures:
    """Asks for the figures of topics, again and again if one likes."""

    def __init__(self, reader: PartitionReader) -> None:
        self._reader = reader
        self._before: tuple[float, dict[TopicPartition, int]] | None = None

    def read(self, topics: Mapping[str, Iterable[int]]) -> dict[str, Figures]:
        """The figures of these topics, each given with its partitions."""
        by_topic = {topic: [TopicPartition(topic, partition) for partition in partitions] for topic, partitions in topics.items()}
        places = [place for own in by_topic.values() for place in own]
        now = time.time()
        latest = {place: found.offset for place, found in self._reader.offsets(places, LATEST).items()}
        earliest = {place: found.offset for place, found in self._reader.offsets(places, EARLIEST).items()}
        newest = {place: found.timestamp_ms for place, found in self._reader.offsets(places, MAX_TIMESTAMP).items()}
        sizes = self._reader.sizes(places)
        gained, seconds = self._gained(places, latest, now)
        self._before = (now, latest)
        kept = {place: end - earliest[place] for place, end in latest.items() if place in earliest}
        return {
            topic: Figures(
                messages=_sum(kept, own),
                size_bytes=_sum(sizes, own),
                per_second=None if (sum_of_gains := _sum(gained, own)) is None else sum_of_gains / seconds,
                last_write_ms=max((newest[place] for place in own if newest.get(place, -1) >= 0), default=None),
            )
            for topic, own in by_topic.items()
        }

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """Where the partitions ended that were asked for last."""
        return {} if self._before is None else self._before[1]

    def _gained(
        self, places: list[TopicPartition], latest: Mapping[TopicPartition, int], now: float
    ) -> tuple[dict[TopicPartition, int], float]:
        """How many offsets each partition has gained, and in how many seconds."""
        if self._before is None:
            since = self._reader.offsets(places, round(now * 1000) - RATE_WINDOW_MS)
            starts = {place: found.offset if found.offset >= 0 else latest.get(place, 0) for place, found in since.items()}
            return _differences(latest, starts), RATE_WINDOW_MS / 1000
        then, ends = self._before
        return _differences(latest, ends), max(now - then, 0.001)


def _differences(latest: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {place: max(end - starts[place], 0) for place, end in latest.items() if place in starts}


def _sum(figures: Mapping[TopicPartition, int], places: list[TopicPartition]) -> int | None:
    """Of all partitions, or None if one is not known."""
    return sum(figures[place] for place in places) if all(place in figures for place in places) else None
