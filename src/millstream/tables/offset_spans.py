"""Which offsets a scan reads, looked up when it reads: the end of a topic that moves is where it was then.

An offset that a person named and that is not there is lost data, for the future as for the past: an error, or what is there instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import READ_COMMITTED, READ_UNCOMMITTED
from millstream.client.codecs.metadata import metadata_request, read_metadata
from millstream.errors import UnknownTopicOrPartition, UsageError
from millstream.offset import EARLIEST, LATEST
from millstream.tables.position import Point, Points, point_of
from millstream.tables.scan_options import ScanOptions, did_you_mean
from millstream.topic_partition import TopicPartition

_NOTHING_SO_NEW = -1

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition, from `start` up to but not including `end`."""

    place: TopicPartition
    start: int
    end: int


def find_partitions(cluster: Cluster, options: ScanOptions) -> list[TopicPartition]:
    """The partitions that are read, as they are now."""
    topic = options.topic
    try:
        cluster.refresh([topic])
        existing = cluster.topic(topic).partitions
    except UnknownTopicOrPartition:
        names = read_metadata(cluster.call(metadata_request(None))).topics
        hint = did_you_mean(topic, names, otherwise=lambda: f"there are {', '.join(sorted(names)[:10]) or 'none'}")
        raise UnknownTopicOrPartition(f"there is no topic {topic!r} at {options.brokers}; {hint}") from None
    numbers = sorted(existing) if options.partitions is None else options.partitions
    for number in numbers:
        if number not in existing:
            raise UnknownTopicOrPartition(f"the topic {topic!r} has no partition {number}: it has {len(existing)}, from 0 on")
    _check_named("start", options.start, numbers)
    _check_named("end", options.end, numbers)
    return [TopicPartition(topic, number) for number in numbers]


def find_spans(cluster: Cluster, options: ScanOptions) -> list[Span]:
    """What a scan reads of each partition; spans may be empty."""
    places = find_partitions(cluster, options)
    earliest, latest = _edges(cluster, options, places)
    starts = _look_up(cluster, options, {place: _named(options.start, place) for place in places}, latest)
    ends = _look_up(cluster, options, {place: _named(options.end, place) for place in places}, latest)
    spans = []
    for place in places:
        edges = earliest[place], latest[place]
        start = _inside(options, "start", place, starts[place], edges=edges)
        end = _inside(options, "end", place, ends[place], edges=edges)
        if start > end:
            if _named(options.start, place).is_offset or _named(options.end, place).is_offset:
                raise UsageError(f"start is after end: {place} would be read from offset {start} up to {end}")
            start = end
        spans.append(Span(place, start, end))
    return spans


def _edges(cluster: Cluster, options: ScanOptions, places: list[TopicPartition]) -> tuple[Offsets, Offsets]:
    earliest = _ask(cluster, options, dict.fromkeys(places, EARLIEST))
    return earliest, _ask(cluster, options, dict.fromkeys(places, LATEST))


def _look_up(cluster: Cluster, options: ScanOptions, points: Mapping[TopicPartition, Point], latest: Offsets) -> Offsets:
    asked = {place: point.number for place, point in points.items() if not point.is_offset and point.number != LATEST}
    found = _ask(cluster, options, asked)
    known = {place: point.number if point.is_offset else latest[place] for place, point in points.items()}
    return known | {place: offset if offset != _NOTHING_SO_NEW else latest[place] for place, offset in found.items()}


def _ask(cluster: Cluster, options: ScanOptions, wanted: Offsets) -> Offsets:
    isolation = READ_COMMITTED if options.read_committed else READ_UNCOMMITTED
    return {place: found.offset for place, found in cluster.offsets(wanted, isolation_level=isolation).items()} if wanted else {}


def _inside(options: ScanOptions, name: str, place: TopicPartition, offset: int, *, edges: tuple[int, int]) -> int:
    earliest, latest = edges
    point = _named(options.start if name == "start" else options.end, place)
    if point.is_offset and not earliest <= offset <= latest:
        options.report_data_loss(f"{name} is offset {offset}, and {place} has the offsets from {earliest} up to {latest}")
    # What others write or delete between two questions moves the edges.
    return min(max(offset, earliest), latest)


def _named(points: Points, place: TopicPartition) -> Point:
    point = point_of(points, place.partition)
    assert point is not None, "every partition is named"
    return point


def _check_named(name: str, points: Points, numbers: "tuple[int, ...] | list[int]") -> None:
    if isinstance(points, Mapping) and set(points) != set(numbers):
        raise UsageError(f"{name}: it must name each partition that is read and no other: {', '.join(map(str, numbers))}")
