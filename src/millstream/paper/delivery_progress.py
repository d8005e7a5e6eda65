"""How far librdkafka's producer has come: before which time everything that was sent has been answered. Pure.

A producer with `delivery.report.only.error` says nothing about what went well, and its queue may never be empty. But its statistics count,
for each partition, the messages that were given to it (`msgs`), and the last one that was acknowledged (`acked_msgid`, by the same
count, of an idempotent producer). So when all partitions have acknowledged what they had been given at some moment, everything sent before
that moment has been answered.
"""

from collections.abc import Mapping
from typing import Any, Final

_UNASSIGNED: Final = "-1"
"""Where messages wait whose partition is not known yet."""

Numbers = dict[tuple[str, str], int]


class DeliveryProgress:
    """Fed with statistics in the order of their times."""

    def __init__(self) -> None:
        self.answered_until = 0.0
        """Monotonic time before which everything that was sent has been answered."""
        self._awaited: tuple[float, Numbers] | None = None

    def feed(self, statistics: Mapping[str, Any]) -> None:
        """One callback's worth of statistics."""
        given: Numbers = {}
        acknowledged: Numbers = {}
        is_placed = True
        for topic, about in statistics["topics"].items():
            for partition, numbers in about["partitions"].items():
                if partition == _UNASSIGNED:
                    is_placed = is_placed and not numbers["msgq_cnt"]
                else:
                    given[topic, partition] = numbers["msgs"]
                    acknowledged[topic, partition] = numbers["acked_msgid"]
        if self._awaited is not None:
            moment, awaited = self._awaited
            if all(acknowledged.get(place, 0) >= number for place, number in awaited.items()):
                self.answered_until = moment
                self._awaited = None
        if self._awaited is None and is_placed:
            self._awaited = statistics["ts"] / 1e6, given
