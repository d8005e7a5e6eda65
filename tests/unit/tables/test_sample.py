"""Which messages are looked at for a guess."""

from millstream.tables.offset_spans import Span
from millstream.tables.sample import sample_spans
from millstream.topic_partition import TopicPartition


def spans(*edges: tuple[int, int]) -> list[Span]:
    return [Span(TopicPartition("clicks", number), *edge) for number, edge in enumerate(edges)]


def looked_at(*edges: tuple[int, int]) -> list[tuple[int, int, int]]:
    return [(span.place.partition, span.start, span.end) for span in sample_spans(spans(*edges))]


def test_the_oldest_and_the_newest_of_each_partition_are_looked_at() -> None:
    assert looked_at((100, 10_000)) == [(0, 100, 600), (0, 9_500, 10_000)]
    assert looked_at((0, 5_000), (7, 7), (0, 300)) == [(0, 0, 250), (2, 0, 250), (0, 4_750, 5_000), (2, 250, 300)]
    assert looked_at((0, 10)) == [(0, 0, 10)]
    assert looked_at((5, 5)) == []


def test_of_many_partitions_some_are_looked_at() -> None:
    found = looked_at(*[(0, 1_000)] * 100)
    assert len(found) == 40
    assert sum(end - start for _, start, end in found) == 1_000
