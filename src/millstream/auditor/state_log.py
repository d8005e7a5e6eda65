"""The records of `_audit_state`: what the reports of one partition of `_audit` add up to, and up to where.

    key                            value
    a/TOPIC/DAY/ID                 finished buckets of a day (`audit.archive`)
    b/TOPIC/START/PART             a bucket that is not finished, or one that reports came for after it was (`audit.ledger`)
    h/TOPIC                        reporters and tiers of a topic
    c                              the checkpoint: reports of `_audit` before this offset are in the records before this one
    o                              who claimed the partition last
    n                              (partition 0 only) over how many partitions of `_audit` the topics are spread

Records are written in this order, so that a crash at any point leaves a state from which reading `_audit` again from the checkpoint counts
nothing twice. A bucket goes to the archive only when a checkpoint has passed it; then its own record gets a tombstone, and until that is
there the archive, which knows the part, counts. A partition has the state of the partition of `_audit` with the same number.

Terms never go down in a log that is read from its start: a record of a lower term than one before it is a zombie's (`state_topic`).
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import uuid4

from millstream.audit.archive import DAY_MS, Archive
from millstream.audit.ledger import Bucket, Ledger
from millstream.audit.ledger_fields import decode_bucket, decode_head, encode_bucket, encode_head
from millstream.audit.reports.report import AUDIT_STATE_TOPIC, AUDIT_TOPIC
from millstream.audit.verdict import Row
from millstream.errors import UsageError
from millstream.json_object import JsonObject

logger = logging.getLogger(__name__)

CHECKPOINT: Final = b"c"
CLAIM: Final = b"o"
SPREAD: Final = b"n"
MAX_SPREAD: Final = 100_000
ARCHIVES_PER_TOPIC: Final = 2
"""So many of a topic may grow at a time: that of today, and one for messages with other times."""


Wants = Callable[[str], bool]
"""Whether a topic is wanted."""


def everything(topic: str) -> bool:
    """Every topic is wanted."""
    return True


class Entry(NamedTuple):
    """One record."""

    key: bytes
    value: bytes | None
    term: int = 0
    """Of the auditor that wrote it."""


class Newest:
    """What the records of a partition add up to, key by key, without those of zombies."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.values: dict[bytes, bytes] = {}
        self.term = 0
        """The highest."""
        self.spread: int | None = None
        self._stale: set[bytes] = set()
        for key, value, term in entries:
            if key == SPREAD:
                self.spread = _spread_of(value) or self.spread
            elif term < self.term:
                self._stale.add(key)
            else:
                self.term = term
                self._stale.discard(key)
                if value is None:
                    self.values.pop(key, None)
                else:
                    self.values[key] = value

    def repairs(self) -> dict[bytes, bytes | None]:
        """What is to be written so that nothing of a zombie is the last record of its key."""
        return {key: self.values.get(key) for key in self._stale}


@dataclass
class PartitionState:
    """The ledgers of the topics of one partition of `_audit`."""

    bucket_ms: int
    position: int = 0
    """The offset in `_audit` of the next report."""
    checkpoint: int = 0
    """What is written has everything before this offset."""
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    archives: dict[bytes, Archive] = field(default_factory=dict)
    """By key: those that were read, or that this process writes."""
    topic_id: str | None = None
    """The id of `_audit` that `position` is an offset of, where the cluster has such."""
    term: int = 0
    """The highest that was read; of an auditor that claimed the state, its own."""
    spread: int | None = None
    unwanted: set[str] = field(default_factory=set)
    """Topics that were not asked for."""
    repairs: dict[bytes, bytes | None] = field(default_factory=dict)
    """What a zombie wrote over."""
    id: str = field(default_factory=lambda: uuid4().hex[:12])
    _changed: set[str] = field(default_factory=set)
    _changed_archives: set[bytes] = field(default_factory=set)
    _finished: list[bytes] = field(default_factory=list)
    _repairing: list[bytes] = field(default_factory=list)
    _archive_keys: dict[tuple[str, int], bytes] = field(default_factory=dict)
    """By topic and day: those that this process writes."""

    def ledger(self, topic: str) -> Ledger:
        """That of a topic, made if there is none."""
        ledger = self.ledgers.get(topic)
        if ledger is None:
            ledger = self.ledgers[topic] = Ledger(topic, bucket_ms=self.bucket_ms)
        return ledger

    def changed(self, topic: str) -> None:
        """The ledger of the topic is to be written."""
        self._changed.add(topic)

    def may_finish(self, bucket: Bucket) -> bool:
        """Whether the bucket is written, and will not be read from `_audit` again."""
        return bucket.position <= self.checkpoint

    def finish(self, topic: str, start: int, rows: list[Row]) -> None:
        """Move a bucket to the archive, with what was judged of it."""
        ledger = self.ledgers[topic]
        bucket = ledger.buckets[start]
        key = self._archive_key(topic, max(start, 0) // DAY_MS)
        # The one that was added to last stands last.
        archive = self.archives.pop(key, None) or Archive(topic)
        archive.add(bucket, rows)
        self.archives[key] = archive
        self._changed_archives.add(key)
        self._finished.append(bucket_key(topic, bucket))
        ledger.forget(start)

    def forget(self, topic: str) -> None:
        """A topic that is gone leaves memory, and its head the state; what is in the archive stays."""
        assert not self.ledgers[topic].buckets
        del self.ledgers[topic]
        self._changed.discard(topic)
        self._finished.append(head_key(topic))

    def entries(self) -> Iterator[Entry]:
        """What is to be written, in this order; `written` is to be called when it is."""
        self._repairing = list(self.repairs)
        for key in self._repairing:
            yield Entry(key, self.repairs[key], self.term)
        for key in sorted(self._changed_archives):
            yield Entry(key, self.archives[key].encode(), self.term)
        for key in self._finished:
            yield Entry(key, None, self.term)
        for topic in sorted(self._changed):
            ledger = self.ledgers[topic]
            for start in sorted(ledger.changed):
                bucket = ledger.buckets[start]
                yield Entry(bucket_key(topic, bucket), encode_bucket(bucket), self.term)
        for topic in sorted(self._changed):
            yield Entry(head_key(topic), encode_head(self.ledgers[topic].head), self.term)
        checkpoint = {"position": self.position, "bucket_ms": self.bucket_ms, "topic_id": self.topic_id}
        yield Entry(CHECKPOINT, json.dumps(checkpoint).encode(), self.term)

    @property
    def has_changed(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._changed or self._changed_archives or self._finished or self.repairs or self.position > self.checkpoint)

    def written(self) -> None:
        """Everything that `entries` gave is in the log."""
        for topic in self._changed:
            self.ledgers[topic].changed.clear()
        self._changed.clear()
        self._changed_archives.clear()
        self._finished.clear()
        for key in self._repairing:
            self.repairs.pop(key, None)
        self._repairing.clear()
        self.checkpoint = self.position
        self._forget_old_archives()

    def begin_again(self) -> None:
        """`_audit` was created anew: what it had is counted, and offsets in it begin with 0."""
        self.position = self.checkpoint = 0
        for topic, ledger in self.ledgers.items():
            ledger.begin_again()
            self.changed(topic)

    def forget_archives(self) -> None:
        """What an auditor reads of them at its start it needs only to know which buckets are in them."""
        self.archives.clear()

    def _archive_key(self, topic: str, day: int) -> bytes:
        """That of the archive of a day, if it is in memory; else a new one, since what is no longer in memory must not be written over."""
        return self._archive_keys.setdefault((topic, day), f"a/{topic}/{day}/{uuid4().hex[:12]}".encode())

    def _forget_old_archives(self) -> None:
        kept: dict[str, int] = {}
        for key, archive in reversed(list(self.archives.items())):
            kept[archive.topic] = kept.get(archive.topic, 0) + 1
            if kept[archive.topic] > ARCHIVES_PER_TOPIC:
                del self.archives[key]
        self._archive_keys = {place: key for place, key in self._archive_keys.items() if key in self.archives}


def bucket_key(topic: str, bucket: Bucket) -> bytes:
    """The key of a bucket, or of a part of one."""
    return f"b/{topic}/{bucket.start}/{bucket.part}".encode()


def head_key(topic: str) -> bytes:
    """The key of what is known of a topic beside its buckets."""
    return f"h/{topic}".encode()


def read_state(entries: Iterable[Entry], *, bucket_ms: int, wants: Wants = everything) -> PartitionState:
    """The state that the records of a partition add up to, of topics that are wanted; what makes no sense is said and left out."""
    newest = Newest(entries)
    state = PartitionState(bucket_ms, term=newest.term, spread=newest.spread, repairs=newest.repairs())
    archives: dict[str, list[Archive]] = {}
    # Archives come first: what is in them is not counted again.
    for key in sorted(newest.values):
        try:
            _take(state, key, newest.values[key], archives, wants)
        except (ValueError, KeyError, TypeError) as error:
            logger.warning("a record of the audit's state makes no sense and is ignored, %r: %s", key[:80], error)
    return state


def _take(state: PartitionState, key: bytes, value: bytes, archives: dict[str, list[Archive]], wants: Wants) -> None:
    if key == CHECKPOINT:
        fields = JsonObject.parse(value)
        _check_length(fields.integer("bucket_ms", lowest=1), state.bucket_ms)
        state.position = state.checkpoint = fields.integer("position", highest=2**63 - 1)
        state.topic_id = fields.optional_text("topic_id") if "topic_id" in fields else None
        return
    if key == CLAIM:
        return
    kind, _, rest = key.decode().partition("/")
    topic = rest if kind == "h" else rest.rsplit("/", 2)[0]
    if not wants(topic):
        state.unwanted.add(topic)
        return
    if kind == "a":
        archive = state.archives[key] = Archive.decode(topic, value)
        archives.setdefault(topic, []).append(archive)
    elif kind == "b":
        _, start, part = rest.rsplit("/", 2)
        if not any(archive.has(int(start), int(part)) for archive in archives.get(topic, [])):
            state.ledger(topic).add_part(decode_bucket(value))
    elif kind == "h":
        state.ledger(topic).head = decode_head(value)
    else:
        raise ValueError("an unknown kind of key")


def _check_length(kept_ms: int, bucket_ms: int) -> None:
    """Buckets of two lengths side by side would miss in one what is in the other."""
    if kept_ms != bucket_ms:
        kept, asked = f"{kept_ms / 1000:g}", f"{bucket_ms / 1000:g}"
        raise UsageError(
            f"the audit is kept in buckets of {kept} s, and not of {asked} s: give the same length (--bucket {kept_ms}ms, or "
            f"bucket_s={kept} of AuditSettings), or delete {AUDIT_STATE_TOPIC} and let the auditor count again what {AUDIT_TOPIC} has."
        )


def encode_spread(partitions: int) -> bytes:
    """The value of `SPREAD`."""
    return json.dumps({"partitions": partitions}).encode()


def _spread_of(value: bytes | None) -> int | None:
    try:
        return JsonObject.parse(value or b"").integer("partitions", lowest=1, highest=MAX_SPREAD)
    except ValueError as error:
        logger.warning("the number of partitions in the audit's state makes no sense and is ignored: %s", error)
        return None
