"""How far groups are behind, in messages and in seconds.

    lag        end of the partition - committed offset, never below 0; unknown where the leader of the partition did not answer
    seconds    now - the time at which the oldest record was written that the group has not finished; 0 when there is none

Commits are read before ends (`sample`), so a group that keeps up is not behind by what was written in between more than it must be. The
time of a record follows from where the partition ended when (`end_history`), and where that does not reach back far enough the record's
batch is asked for, a few partitions per sample; it is then its own timestamp that counts.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from millstream.batch_memory import is_batch_memory
from millstream.broker.metrics.sample import Sample
from millstream.monitoring.end_history import EndHistory
from millstream.topic_partition import TopicPartition

ASKED_PER_SAMPLE: Final = 100
"""Records whose time is asked for with one sample; the rest has its turn with the next ones."""


class PartitionLag(NamedTuple):
    """One position of a group; None where something is not known."""

    group: str
    place: TopicPartition
    committed: int
    messages: int | None
    seconds: float | None


class Reader(Protocol):
    """Who is asked (`cluster_reader`)."""

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions end."""

    def timestamps(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """When records were written."""


class Lags:
    """Reads one sample after the other."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._history = EndHistory()
        self._timestamps: dict[tuple[TopicPartition, int], float] = {}
        """Of records that had to be asked for, by partition and offset."""

    def of(self, sample: Sample, *, now: float) -> list[PartitionLag]:
        """Every position of every group that this broker coordinates, unless it is no position (`batch_memory`)."""
        positions = [
            (group.group, TopicPartition(topic, partition), offset)
            for group in sample.groups
            if not is_batch_memory(group.group)
            for topic, partition, offset in group.offsets
        ]
        led = {TopicPartition(row.topic, row.partition): row for row in sample.led}
        places = {place for _, place, _ in positions}
        ends = {place: led[place].high_watermark for place in places if place in led}
        ends |= self._reader.ends(sorted(places - ends.keys())) if len(ends) < len(places) else {}
        self._history.keep_only(places)
        self._history.note(now, ends)
        # What was deleted is not waited for: the oldest record that is left is.
        first = {place: led[place].log_start_offset for place in places if place in led}
        waiting = {(place, max(offset, first.get(place, 0))) for _, place, offset in positions if offset < ends.get(place, 0)}
        self._ask_for(waiting)
        lags = []
        for group, place, offset in positions:
            end = ends.get(place)
            if end is None:
                lags.append(PartitionLag(group, place, offset, None, None))
            elif offset >= end:
                lags.append(PartitionLag(group, place, offset, 0, 0.0))
            else:
                oldest = max(offset, first.get(place, 0))
                lags.append(PartitionLag(group, place, offset, end - offset, self._age(place, oldest, now) if oldest < end else 0.0))
        return lags

    def _age(self, place: TopicPartition, offset: int, now: float) -> float | None:
        """How long ago a record was written, as far as that is known."""
        written = self._history.time_of(place, offset)
        if written is None:
            written = self._timestamps.get((place, offset))
        # A clock that is ahead of ours must not make a record wait a negative time.
        return None if written is None else max(now - written, 0.0)

    def _ask_for(self, waiting: set[tuple[TopicPartition, int]]) -> None:
        """Ask for the times of records that are older than the history, and forget those that were finished."""
        old = {key for key in waiting if self._history.time_of(*key) is None}
        self._timestamps = {key: self._timestamps[key] for key in self._timestamps.keys() & old}
        wanted: dict[TopicPartition, int] = {}
        for place, offset in sorted(old - self._timestamps.keys()):
            if len(wanted) < ASKED_PER_SAMPLE:
                wanted.setdefault(place, offset)
        found = self._reader.timestamps(wanted) if wanted else {}
        self._timestamps |= {(place, wanted[place]): timestamp for place, timestamp in found.items()}
