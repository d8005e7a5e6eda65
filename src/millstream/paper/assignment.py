"""The paper's Algorithm 1: which partitions of a topic a stream of a group takes. Every consumer computes it by itself, from what it reads.

Sort the partitions; sort the streams of all consumers of the group; with P partitions and S streams each takes a range of P/S partitions,
in this order, the first P mod S streams one more. Whoever sees the same partitions and the same consumers comes to the same division, so
nobody has to be asked. A consumer with two streams is sorted as two.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from millstream.paper.subscription import Subscription


class StreamId(NamedTuple):
    """One stream of one consumer: who owns a partition."""

    consumer: str
    number: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.number}"


def assign_range(partitions: Iterable[int], streams: Iterable[StreamId]) -> dict[StreamId, Sequence[int]]:
    """The division of a topic's partitions among the streams that read it."""
    ordered_partitions, ordered_streams = sorted(partitions), sorted(streams)
    division: dict[StreamId, Sequence[int]] = {}
    for place, stream in enumerate(ordered_streams):
        size, rest = divmod(len(ordered_partitions), len(ordered_streams))
        start = place * size + min(place, rest)
        division[stream] = ordered_partitions[start : start + size + (place < rest)]
    return division


def streams_of(topic: str, subscriptions: Mapping[str, Subscription]) -> list[StreamId]:
    """Every stream of the group that reads the topic, over all consumers."""
    return [
        StreamId(consumer, number)
        for consumer, subscription in subscriptions.items()
        for number in range(subscription.topics.get(topic, 0))
    ]
