"""The records of `_audit_state`: what the reports of one partition of `_audit` add up to, and up to where.

    key                            value
    a/TOPIC/DAY/ID                 finished buckets of a day (`audit.archive`); ID: of the auditor that wrote them
    b/TOPIC/START/PART             a bucket that is not finished, or one that reports came for after it was (`audit.ledger`)
    h/TOPIC                        reporters and tiers of a topic
    c                              the checkpoint: reports of `_audit` before this offset are in the records before this one

Records are written in this order, so that a crash at any point leaves a state from which reading `_audit` again from the checkpoint counts
nothing twice. A bucket goes to the archive only when a checkpoint has passed it; then its own record gets a tombstone, and until that is
there the archive, which knows the part, counts. A partition has the state of the partition of `_audit` with the same number.
"""

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from millstream.audit.archive import DAY_MS, Archive
from millstream.audit.ledger import Bucket, Ledger
from millstream.audit.ledger_fields import decode_bucket, decode_head, encode_bucket, encode_head
from millstream.audit.report import AUDIT_STATE_TOPIC, AUDIT_TOPIC
from millstream.audit.verdict import Row
from millstream.errors import UsageError
from millstream.json_object import JsonObject

logger = logging.getLogger(__name__)

CHECKPOINT: Final = b"c"
Entry = tuple[bytes, bytes | None]
"""Key and value of a record."""


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
    id: str = field(default_factory=lambda: uuid4().hex[:12])
    _changed: set[str] = field(default_factory=set)
    _changed_archives: set[bytes] = field(default_factory=set)
    _finished: list[bytes] = field(default_factory=list)

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
        key = f"a/{topic}/{max(start, 0) // DAY_MS}/{self.id}".encode()
        self.archives.setdefault(key, Archive(topic)).add(bucket, rows)
        self._changed_archives.add(key)
        self._finished.append(bucket_key(topic, bucket))
        ledger.forget(start)

    def entries(self) -> Iterator[Entry]:
        """What is to be written, in this order; `written` is to be called when it is."""
        for key in sorted(self._changed_archives):
            yield key, self.archives[key].encode()
        for key in self._finished:
            yield key, None
        for topic in sorted(self._changed):
            ledger = self.ledgers[topic]
            for start in sorted(ledger.changed):
                bucket = ledger.buckets[start]
                yield bucket_key(topic, bucket), encode_bucket(bucket)
        for topic in sorted(self._changed):
            yield head_key(topic), encode_head(self.ledgers[topic].head)
        yield CHECKPOINT, json.dumps({"position": self.position, "bucket_ms": self.bucket_ms}).encode()

    @property
    def has_changed(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._changed or self._changed_archives or self._finished or self.position > self.checkpoint)

    def written(self) -> None:
        """Everything that `entries` gave is in the log."""
        for topic in self._changed:
            self.ledgers[topic].changed.clear()
        self._changed.clear()
        self._changed_archives.clear()
        self._finished.clear()
        self.checkpoint = self.position
        newest = max((_day(key) for key in self.archives), default=0)
        kept = {key: archive for key, archive in self.archives.items() if _day(key) == newest}
        if len(kept) < len(self.archives):
            # What is no longer in memory must not be written over.
            self.archives, self.id = kept, uuid4().hex[:12]

    def forget_archives(self) -> None:
        """What an auditor reads of them at its start it needs only to know which buckets are in them."""
        self.archives.clear()


def bucket_key(topic: str, bucket: Bucket) -> bytes:
    """The key of a bucket, or of a part of one."""
    return f"b/{topic}/{bucket.start}/{bucket.part}".encode()


def head_key(topic: str) -> bytes:
    """The key of what is known of a topic beside its buckets."""
    return f"h/{topic}".encode()


def read_state(entries: Iterable[Entry], *, bucket_ms: int) -> PartitionState:
    """The state that the records of a partition add up to; what makes no sense is said and left out."""
    newest: dict[bytes, bytes] = {}
    for key, value in entries:
        if value is None:
            newest.pop(key, None)
        else:
            newest[key] = value
    state = PartitionState(bucket_ms)
    archives: dict[str, list[Archive]] = {}
    # Archives come first: what is in them is not counted again.
    for key in sorted(newest):
        try:
            _take(state, key, newest[key], archives)
        except (ValueError, KeyError, TypeError) as error:
            logger.warning("a record of the audit's state makes no sense and is ignored, %r: %s", key[:80], error)
    return state


def _take(state: PartitionState, key: bytes, value: bytes, archives: dict[str, list[Archive]]) -> None:
    if key == CHECKPOINT:
        fields = JsonObject.parse(value)
        _check_length(fields.integer("bucket_ms", lowest=1), state.bucket_ms)
        state.position = state.checkpoint = fields.integer("position", highest=2**63 - 1)
        return
    kind, _, rest = key.decode().partition("/")
    if kind == "a":
        topic = rest.rsplit("/", 2)[0]
        archive = state.archives[key] = Archive.decode(topic, value)
        archives.setdefault(topic, []).append(archive)
    elif kind == "b":
        topic, start, part = rest.rsplit("/", 2)
        if not any(archive.has(int(start), int(part)) for archive in archives.get(topic, [])):
            state.ledger(topic).add_part(decode_bucket(value))
    elif kind == "h":
        state.ledger(rest).head = decode_head(value)
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


def _day(key: bytes) -> int:
    return int(key.decode().rsplit("/", 2)[1])
