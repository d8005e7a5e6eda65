"""Latencies out of buckets: the histogram that is published, and the quantiles that Kafka's own metrics have.

The buckets of the broker (`broker.network.request_times`) are powers of two in microseconds. A quantile is one of the last minutes, not of
all time: the buckets of an older sample are taken away from those of the newest. Inside a bucket requests are taken to be spread evenly.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

WINDOW_S: Final = 300.0
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Those of Kafka's metrics."""
FIRST_BUCKET: Final = 6
LAST_BUCKET: Final = 25
"""From 64 us to 33 s."""

Buckets = Sequence[int]
"""Counts by the bit length of the time in microseconds; the last number is the sum of all times."""


class RecentTimes:
    """The buckets of the last minutes."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Mapping[str, Buckets]]] = deque()

    def note(self, now: float, requests: Mapping[str, Buckets]) -> None:
        """Take a sample; what is older than the window goes, but for the last such one."""
        self._samples.append((now, requests))
        while len(self._samples) > 1 and self._samples[1][0] <= now - WINDOW_S:
            self._samples.popleft()

    def quantiles_ms(self) -> Iterator[tuple[str, float, float]]:
        """Request, quantile and value, for requests that there were."""
        oldest = self._samples[0][1] if len(self._samples) > 1 else {}
        for request, newest in self._samples[-1][1].items() if self._samples else ():
            before = oldest.get(request, [0] * len(newest))
            # One of several brokers that was started again counts from 0.
            counts = [max(new - old, 0) for new, old in zip(newest[:-1], before[:-1], strict=True)]
            if any(counts):
                for quantile in QUANTILES:
                    yield request, quantile, quantile_us(counts, quantile) / 1000


def quantile_us(counts: Sequence[int], quantile: float) -> float:
    """The time below which so large a share of the requests was answered."""
    rank = sum(counts) * quantile
    passed = 0
    for bits, count in enumerate(counts):
        if count and passed + count >= rank:
            low, high = (1 << bits) >> 1, 1 << bits
            return low + (high - low) * max(rank - passed, 0) / count
        passed += count
    return 0.0


def cumulative(buckets: Buckets) -> Iterator[tuple[float, int]]:
    """Upper bounds in seconds, and how many requests took at most as long."""
    for bits, count in enumerate(accumulate(buckets[:-1])):
        if FIRST_BUCKET <= bits <= LAST_BUCKET:
            yield (1 << bits) / 1e6, count
