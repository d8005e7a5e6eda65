"""What a tier says: one message of the topic `_audit`, with what one reporter counted of one topic since its last one.

The key of the message is the name of the topic, so that one auditor sees all reports of a topic. A report is known by its reporter and
sequence: the same pair again is a repeat, a number left out is a report that was lost. Every reporter begins with a report that it sends
when it first touches the topic (`sequence` 0), sends one at least every `interval_ms`, with counts or without, and ends with one that is
its last (for now: it may go on later). One that falls silent without that was killed, and what it had counted by then is unknown.

Tiers that know offsets report the offsets they counted, so that the union of all reports is right whatever is repeated. Those that do not
look at times say `ANY_BUCKET`: the auditor finds the buckets by the offsets, which the broker's tier knows.

`read` is for who reads a log from end to end (the broker's tier): the report covers each partition from `start` up to `end`. The ledger
takes it only if `start` is where it has got to, so two readers at once, or one that was killed, count nothing twice.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from millstream.audit.offset_set import OffsetSet

AUDIT_TOPIC: Final = "_audit"
AUDIT_STATE_TOPIC: Final = "_audit_state"
DEFAULT_BUCKET_MS: Final = 600_000
DEFAULT_INTERVAL_MS: Final = 10_000
ANY_BUCKET: Final = -1
"""The tier did not look at the times of messages."""
NO_TIME: Final = -2
"""The bucket of messages without a time."""
ANY_PARTITION: Final = -1
"""The tier does not know partitions."""


class Kind(StrEnum):
    """What a tier does with messages. Their order is the way of a message."""

    PRODUCER = "producer"
    BROKER = "broker"
    MIRROR = "mirror"
    CONSUMER = "consumer"
    LOAD = "load"


class Origin(NamedTuple):
    """Who counted; a tier is its name, its kind and the cluster whose topic was counted."""

    tier: str
    kind: Kind
    application: str
    host: str
    datacentre: str
    cluster: str
    """Id of the cluster whose topic was counted; of a mirror, the one it reads."""
    target: str = ""
    """Id of the cluster that a mirror writes to; empty for all others."""


class Delay(NamedTuple):
    """Milliseconds between the time of a message and its being counted."""

    mean: int
    p95: int
    p99: int
    max: int


class ReadRange(NamedTuple):
    """A partition was read from `start` up to but not including `end`."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Count:
    """Messages of one bucket and partition."""

    bucket: int
    """Start of the bucket in milliseconds since 1970, `ANY_BUCKET` or `NO_TIME`."""
    count: int
    bytes: int = 0
    """Of keys and values."""
    partition: int = ANY_PARTITION
    malformed: int = 0
    """Of `count`: those that the tier could not make sense of."""
    control: int = 0
    """Records of the broker's own (commit, abort); not in `count`."""
    aborted: int = 0
    """Records of aborted transactions; not in `count`."""
    delay: Delay | None = None
    offsets: OffsetSet | None = None
    """Those that were counted; None: the tier knows no offsets."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one reporter counted of one topic since its last report."""

    reporter: UUID
    sequence: int
    """Per reporter and topic, from 0 without a gap."""
    origin: Origin
    topic: str
    bucket_ms: int
    sent_ms: int
    interval_ms: int
    """Within this time the next report follows, unless this is the last one."""
    is_last: bool = False
    progress_ms: int | None = None
    """The tier does not expect messages from before this time any more."""
    counts: tuple[Count, ...] = ()
    read: tuple[ReadRange, ...] = ()
    topic_id: str | None = None
    """Of who reads a log: the id of its topic, where the cluster has such."""


def bucket_of(timestamp_ms: int, bucket_ms: int) -> int:
    """Start of the bucket in which the time is; `NO_TIME` for a message that has none."""
    return timestamp_ms - timestamp_ms % bucket_ms if timestamp_ms >= 0 else NO_TIME


def bucket_text(start: int) -> str | None:
    """The start of a bucket as an ISO time, or the number if it is beyond all calendars; None for messages without a time."""
    if start < 0:
        return None
    try:
        moment = datetime.fromtimestamp(start / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(start)
    return moment.isoformat(timespec="milliseconds" if start % 1000 else "seconds").replace("+00:00", "Z")
