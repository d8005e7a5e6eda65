"""How a mirror is: what each partition lags behind, how fast it is copied, what is in the way. Values, and JSON. Pure.

    lag_messages   offsets of the source that the target does not have yet; None while that is not known
    lag_bytes      about how many bytes that is, by the size of what was copied before; None if nothing was
    lag_seconds    how old the last record is that was copied, if there are newer ones; 0 if there are none

A mirror writes it as records of the topic `_mirror` at the target (`mirror_topic`): one for the process, one for each topic.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Protocol, Self

from millstream.topic_partition import TopicPartition

Document = dict[str, Any]

RUNNING: Final = "running"
ENDED: Final = "ended"
SILENT: Final = "silent"


@dataclass(frozen=True)
class PartitionStatus:
    """One partition."""

    topic: str
    partition: int
    state: str
    source_end: int
    target_end: int
    lag_messages: int | None
    lag_bytes: int | None
    lag_seconds: float | None
    messages_per_second: float
    bytes_per_second: float
    skipped_offsets: int
    """Offsets that the source no longer had (retention, compaction), since the process began."""
    error: str | None

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self | None:
        """What was written; None if it is something else."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: document[name] for name in names}) if names <= document.keys() else None


@dataclass(frozen=True)
class ProcessStatus:
    """One mirror process."""

    name: str
    member: str
    source: str
    target: str
    topics: str
    host: str
    at_ms: int
    state: str
    """running or ended, as it said last; silent: it was running, and has said nothing for a while."""
    refused: Mapping[str, str]
    """Topics that cannot be mirrored, and why."""
    error: str | None
    """What is in the way of everything."""


class Measured(Protocol):
    """A partition while it is copied; offsets are those of the source, and -1 is what is not known."""

    @property
    def name(self) -> TopicPartition: ...
    @property
    def state(self) -> str: ...
    @property
    def source_end(self) -> int: ...
    @property
    def confirmed_to(self) -> int: ...
    @property
    def lag(self) -> int: ...
    @property
    def copied_offsets(self) -> int: ...
    @property
    def copied_bytes(self) -> int: ...
    @property
    def last_timestamp(self) -> int: ...
    @property
    def skipped_offsets(self) -> int: ...
    @property
    def error(self) -> str | None: ...


class Meter:
    """Makes statuses of copies, with the speed since the last time."""

    def __init__(self) -> None:
        self._last: dict[TopicPartition, tuple[int, int]] = {}
        self._last_ms = 0

    def measure(self, copies: Iterable[Measured], *, now_ms: int) -> list[PartitionStatus]:
        """The partitions as they are now, in order."""
        seconds = max(now_ms - self._last_ms, 1) / 1000
        last, self._last, self._last_ms = self._last, {}, now_ms
        statuses = []
        for copy in copies:
            counts = self._last[copy.name] = (copy.copied_offsets, copy.copied_bytes)
            messages, size = (max(now - before, 0) for now, before in zip(counts, last.get(copy.name, counts), strict=True))
            statuses.append(_partition_status(copy, messages / seconds, size / seconds, now_ms=now_ms))
        return sorted(statuses, key=lambda status: (status.topic, status.partition))


def _partition_status(copy: Measured, messages_per_second: float, bytes_per_second: float, *, now_ms: int) -> PartitionStatus:
    lag = None if copy.lag < 0 else copy.lag
    lag_bytes = lag_seconds = None
    if lag == 0:
        lag_bytes, lag_seconds = 0, 0.0
    elif lag is not None:
        if copy.copied_offsets:
            lag_bytes = lag * copy.copied_bytes // copy.copied_offsets
        if copy.last_timestamp >= 0:
            lag_seconds = max(now_ms - copy.last_timestamp, 0) / 1000
    return PartitionStatus(
        copy.name.topic,
        copy.name.partition,
        copy.state,
        copy.source_end,
        copy.confirmed_to,
        lag,
        lag_bytes,
        lag_seconds,
        round(messages_per_second, 1),
        round(bytes_per_second, 1),
        copy.skipped_offsets,
        copy.error,
    )


@dataclass(frozen=True)
class MirrorStatus:
    """All processes of one mirror together."""

    name: str
    processes: list[ProcessStatus]
    partitions: list[PartitionStatus]

    @property
    def errors(self) -> list[str]:
        """Everything that is in the way, in sentences."""
        found = [f"{process.host}: {process.error}" for process in self.processes if process.error]
        found += sorted({f"{topic}: {reason}" for process in self.processes for topic, reason in process.refused.items()})
        return found + [f"{one.topic}-{one.partition}: {one.error}" for one in self.partitions if one.error]

    def document(self) -> Document:
        """As `--json` shows it."""
        known = [one.lag_messages for one in self.partitions if one.lag_messages is not None]
        return {
            "name": self.name,
            "lag_messages": sum(known),
            "lag_bytes": sum(one.lag_bytes or 0 for one in self.partitions),
            "lag_seconds": max((one.lag_seconds or 0 for one in self.partitions), default=0),
            "messages_per_second": round(sum(one.messages_per_second for one in self.partitions), 1),
            "bytes_per_second": round(sum(one.bytes_per_second for one in self.partitions), 1),
            "errors": self.errors,
            "processes": [asdict(process) for process in self.processes],
            "partitions": [asdict(one) for one in self.partitions],
        }


def one_line(partitions: Iterable[PartitionStatus], refused: Mapping[str, str]) -> str:
    """How it goes, for a terminal."""
    known = list(partitions)
    lag = sum(one.lag_messages or 0 for one in known)
    seconds = max((one.lag_seconds or 0 for one in known), default=0)
    speed = sum(one.bytes_per_second for one in known) / 1e6
    line = (
        f"{len({one.topic for one in known})} topic(s), {len(known)} partition(s): {sum(one.messages_per_second for one in known):,.0f} "
        f"messages/s, {speed:,.2f} MB/s, {lag:,} messages behind"
    )
    if lag:
        line += f" ({seconds:,.1f} s)"
    troubled = sum(one.error is not None for one in known)
    if troubled or refused:
        line += f"; {troubled} partition(s) and {len(refused)} topic(s) with errors"
    return line
