"""The tier of a stream that Spark reads: the offsets of the micro-batches that were processed. The auditor finds their buckets.

With the option `audit` the end of every micro-batch says where it began. Spark keeps it in its checkpoint, so that a query that was killed
after a micro-batch, and before it was reported, can still report it when it starts again.
"""

from typing import Final

from millstream.audit.reports.report import Kind
from millstream.audited.settings import AuditSettings
from millstream.audited.tier import Tier
from millstream.spark.positions import Offsets
from millstream.topic_partition import TopicPartition

_PUBLISH_TIMEOUT_S: Final = 2.0


class SourceAudit:
    """Reports what a stream has processed; lives as long as the process that plans it."""

    def __init__(self, settings: AuditSettings, brokers: str) -> None:
        self._tier = Tier(settings, Kind.CONSUMER, lambda: brokers)
        self._reported: dict[TopicPartition, int] = {}

    def report(self, start: Offsets | None, end: Offsets) -> None:
        """Everything between the two has been processed; `start` is None where no micro-batch has been."""
        self._tier.touch(place.topic for place in end)
        is_new = False
        for place, until in end.items():
            begin = max((start or end).get(place, until), self._reported.get(place, 0))
            if begin < until:
                is_new = True
                self._tier.passed(place, begin, until)
                self._reported[place] = until
        if is_new:
            self._tier.reporter.publish(_PUBLISH_TIMEOUT_S)
