"""What one micro-batch did, from the progress that Spark reports after it: rows, speed, how far behind, how long.

Lag in messages is what the topics had when the micro-batch was planned, minus what it processed. Lag in seconds is how long ago the job
first saw an offset that it has not processed yet; a job that was just started does not know how old its backlog is, and counts from its
start.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from millstream.spark.positions import Offsets
from millstream.topic_partition import TopicPartition

MALFORMED: Final = "malformed"
UNTIMED: Final = "untimed"
"""What a query may count itself, by `observe`, under these names."""


class CountedRows(NamedTuple):
    """What a job counted itself in one micro-batch."""

    rows: int
    malformed: int = 0


class BatchCounts:
    """Rows that a job counted itself, by micro-batch: for jobs whose rows are not what Spark counts."""

    def __init__(self) -> None:
        self._counted: dict[int, CountedRows] = {}

    def note(self, batch_id: int, rows: int, *, malformed: int = 0) -> None:
        """A micro-batch was done; called on the driver, from whichever thread."""
        self._counted[batch_id] = CountedRows(rows, malformed)

    def take(self, batch_id: int) -> CountedRows | None:
        """What was noted about this micro-batch; what is older is forgotten."""
        counted = self._counted.pop(batch_id, None)
        for old in [known for known in self._counted if known < batch_id]:
            del self._counted[old]
        return counted


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One micro-batch."""

    batch_id: int
    finished_ms: int
    duration_ms: int
    rows: int
    malformed: int
    late: int
    """Rows that came after the watermark and were left out."""
    lag_messages: int | None
    lag_seconds: float | None
    watermark: str | None
    untimed: int = 0
    """Messages without a time of the event."""

    @property
    def rows_per_second(self) -> float:
        """How fast it was."""
        return self.rows / max(self.duration_ms, 1) * 1000


class LagHistory:
    """When the job first saw each end of the topics; ends that it has processed are forgotten."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, Offsets]] = deque(maxlen=10_000)

    def observe(self, at_ms: int, latest: Offsets, processed: Offsets) -> float:
        """The topics ended at `latest`, and the job has processed up to `processed`: for how many seconds has the oldest rest waited?"""
        self._seen.append((at_ms, latest))
        while self._seen and not _is_behind(processed, self._seen[0][1]):
            self._seen.popleft()
        return max(at_ms - self._seen[0][0], 0) / 1000 if self._seen else 0.0


def read_progress(
    reported: Mapping[str, Any], history: LagHistory, counted: CountedRows | None = None, *, late: int | None = None
) -> BatchProgress:
    """What Spark reported, as JSON, about a micro-batch; `counted` replaces Spark's own number of rows, `late` that of late ones."""
    duration_ms = int(reported.get("durationMs", {}).get("triggerExecution", 0))
    finished_ms = _milliseconds(reported["timestamp"]) + duration_ms
    latest, processed = _offsets(reported, "latestOffset"), _offsets(reported, "endOffset")
    operators = reported.get("stateOperators") or ()
    return BatchProgress(
        batch_id=int(reported["batchId"]),
        finished_ms=finished_ms,
        duration_ms=duration_ms,
        rows=int(reported["numInputRows"]) if counted is None else counted.rows,
        malformed=_observed(reported, MALFORMED) if counted is None else counted.malformed,
        late=sum(int(operator.get("numRowsDroppedByWatermark", 0)) for operator in operators) if late is None else late,
        lag_messages=None if latest is None or processed is None else count_behind(processed, latest),
        lag_seconds=None if latest is None or processed is None else history.observe(finished_ms, latest, processed),
        watermark=(reported.get("eventTime") or {}).get("watermark"),
        untimed=_observed(reported, UNTIMED),
    )


def _observed(reported: Mapping[str, Any], name: str) -> int:
    """The sum of what the query counted itself under a name."""
    return sum(int(metrics.get(name) or 0) for metrics in (reported.get("observedMetrics") or {}).values())


def count_behind(processed: Offsets, latest: Offsets) -> int:
    """How many offsets are not processed yet; a partition that is not known begins with 0."""
    return sum(max(end - processed.get(place, 0), 0) for place, end in latest.items())


def _is_behind(processed: Offsets, latest: Offsets) -> bool:
    return any(end > processed.get(place, 0) for place, end in latest.items())


def _offsets(reported: Mapping[str, Any], name: str) -> dict[TopicPartition, int] | None:
    """The offsets of all sources of ours; None if there is no such source."""
    from millstream.spark.source.reader import read_stream_offset  # who only reads progress from its file does not wait for pyspark

    found: dict[TopicPartition, int] = {}
    known = [source[name] for source in reported.get("sources", ()) if isinstance(source.get(name), dict)]
    for offsets in known:
        if all(isinstance(numbers, dict) for numbers in offsets.values()):
            found |= read_stream_offset(offsets).offsets
    return found if known else None


def _milliseconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1000)
