"""Which offsets of which partitions are read: from where to where, as the positions mean it, and what a person should know about that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millstream.cli.kafka_client import REQUEST_SECONDS, Cluster
from millstream.cli.position import OffsetRange, Position, PositionKind
from millstream.errors import CommandFailed

if TYPE_CHECKING:
    from confluent_kafka import Consumer

MOST_REMARKS = 3


@dataclass(frozen=True)
class Spans:
    """The offsets to read of each partition; without `ends` there is no end."""

    topic: str
    starts: Mapping[int, int]
    ends: Mapping[int, int] | None

    def open_partitions(self) -> set[int]:
        """Partitions of which there is something to read, or may be one day."""
        return {number for number in self.starts if self.ends is None or self.starts[number] < self.ends[number]}


def find_spans(
    cluster: Cluster, consumer: "Consumer", *, topic: str, chosen: list[int] | None, start: Position, end: Position | None
) -> tuple[Spans, list[str]]:
    """What is to be read (without an end if there is none), and remarks about offsets that are not there."""
    numbers = _chosen_partitions(cluster, consumer, topic=topic, chosen=chosen)
    ranges = {number: _offset_range(consumer, topic, partition=number) for number in numbers}
    starts = _offsets_at(consumer, topic, ranges=ranges, position=start)
    ends = None if end is None else _offsets_at(consumer, topic, ranges=ranges, position=end)
    return Spans(topic, starts, ends), _shortened(list(_remarks(topic, ranges, start)))


def _chosen_partitions(cluster: Cluster, consumer: "Consumer", *, topic: str, chosen: list[int] | None) -> list[int]:
    existing = cluster.existing_topic(consumer, topic).partitions
    missing = set(chosen or []) - set(existing)
    if missing:
        raise CommandFailed(f"The topic {topic!r} has no partition {min(missing)}: it has {len(existing)}, from 0 to {len(existing) - 1}.")
    return sorted(set(chosen)) if chosen else sorted(existing)


def _offset_range(consumer: "Consumer", topic: str, *, partition: int) -> OffsetRange:
    from confluent_kafka import TopicPartition

    watermarks = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=REQUEST_SECONDS)
    if watermarks is None:
        raise CommandFailed(f"The broker did not give the offsets of {topic}-{partition} within {REQUEST_SECONDS:.0f} s.")
    return OffsetRange(*watermarks)


def _offsets_at(consumer: "Consumer", topic: str, *, ranges: Mapping[int, OffsetRange], position: Position) -> dict[int, int]:
    """The offset that a position means in every partition."""
    if position.kind is not PositionKind.TIME:
        return {number: position.offset_in(offsets) for number, offsets in ranges.items()}
    from confluent_kafka import TopicPartition

    asked = [TopicPartition(topic, number, position.number) for number in ranges]
    found = consumer.offsets_for_times(asked, timeout=REQUEST_SECONDS)
    # Nothing that young: librdkafka answers its number for "end". What was written since the ends were asked for is not read either.
    return {
        place.partition: min(place.offset, ranges[place.partition].latest) if place.offset >= 0 else ranges[place.partition].latest
        for place in found
    }


def _remarks(topic: str, ranges: Mapping[int, OffsetRange], start: Position) -> Iterator[str]:
    if start.kind is not PositionKind.OFFSET:
        return
    for number, (earliest, latest) in ranges.items():
        if start.number > latest:
            yield f"offset {start.number} is past the end of {topic}-{number}, whose next offset is {latest}"
        elif start.number < earliest:
            yield f"offset {start.number} of {topic}-{number} is not there any more: it begins at {earliest}"


def _shortened(remarks: list[str]) -> list[str]:
    rest = len(remarks) - MOST_REMARKS
    return [*remarks[:MOST_REMARKS], f"and so in {rest} other partitions"] if rest > 0 else remarks
