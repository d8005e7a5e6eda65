"""The paper's Algorithm 1: which partitions of a topic a stream of a group takes. Every consumer computes it by itself, from what it reads.

Sort the partitions; sort the streams of all consumers of the group; with P partitions and S streams each takes a range of P/S partitions,
in this order, the first P mod S streams one more. Whoever sees the same partitions and the same consumers comes to the same division, so
no other has to be asked. A consumer with two streams is sorted as two.

What each consumer reads stands in its registration, `/consumers/<group>/ids/<consumer>`: `{"topics": {"clicks": 2}, "session_timeout_ms":
6000}` means two streams of the topic `clicks`, and a consumer whose registration is gone 6 s after it was killed. Other programs can write
to the tree: what makes no sense there is None here, never an error.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from millstream.json_object import JsonObject

_SESSION = "session_timeout_ms"


class StreamId(NamedTuple):
    """One stream of one consumer: who owns a partition."""

    consumer: str
    number: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.number}"


@dataclass(frozen=True)
class Subscription:
    """The topics that a consumer reads, each with the number of its streams."""

    topics: Mapping[str, int]
    session_timeout_ms: int | None = None
    """How long its registration outlives a consumer that was killed; None if it does not say it."""

    def encode(self) -> bytes:
        """The content of the consumer's znode."""
        return json.dumps({"topics": dict(self.topics), _SESSION: self.session_timeout_ms}).encode()


def read_subscription(data: bytes) -> Subscription | None:
    """The subscription in a consumer's znode; None if it holds something else."""
    try:
        fields = JsonObject.parse(data)
        return Subscription(fields.counts("topics"), fields.optional_integer(_SESSION) if _SESSION in fields else None)
    except ValueError:
        return None


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
