"""What one micro-batch of a load brings to one table, and what of it is kept in the commit.

In a commit stand, beside the files: the query and the number of the micro-batch, where each partition has got to, and the counts per bucket
of event time. The first two are application transactions of Delta, which survive checkpoints of its log and make two loads that write at
once conflict; the counts are metadata of the commit (`history`), for the audit and for people.

    millstream/query/<id of the query>              number of the micro-batch
    millstream/offset/<topic>/<partition>           the offset that comes next
    millstream/topic                                a number made of the topic's name and id: rows are of this topic alone
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from millstream.lake.bucket_counts import BucketCount
from millstream.lake.data_file import DataFile

METADATA: Final = "millstream"
TOPIC_KEY: Final = "millstream/topic"
_TOPIC_BYTES: Final = 7
"""A version of Delta's has 63 bits."""


class LoadedRange(NamedTuple):
    """Offsets of one partition, from `start` up to but not including `end`."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LoadBatch:
    """The part of one topic in a micro-batch."""

    query_id: str
    batch_id: int
    topic: str
    topic_id: str | None
    ranges: tuple[LoadedRange, ...]
    counts: tuple[BucketCount, ...]
    files: tuple[DataFile, ...] = ()
    progress_ms: int | None = None
    """Up to which time of messages the topic is loaded with it; None where it was not kept."""
    is_behind: bool = False
    """Whether the topic had more when the micro-batch was planned."""

    @property
    def topic_number(self) -> int | None:
        """Says which topic it is, also among those of one name that came after each other; None where brokers have no ids."""
        if self.topic_id is None:
            return None
        return int.from_bytes(hashlib.sha256(f"{self.topic}/{self.topic_id}".encode()).digest()[:_TOPIC_BYTES])

    def metadata(self) -> dict[str, str]:
        """What is kept beside the commit."""
        document = {
            "query": self.query_id,
            "batch": self.batch_id,
            "topic": self.topic,
            "offsets": [list(one) for one in self.ranges],
            "counts": [one.document() for one in self.counts],
            "progress": [self.progress_ms, self.is_behind],
        }
        return {METADATA: json.dumps(document, separators=(",", ":"))}


def offset_key(topic: str, partition: int) -> str:
    """The application transaction that says where a partition has got to."""
    return f"millstream/offset/{topic}/{partition}"


def read_metadata(commit: Mapping[str, Any]) -> LoadBatch | None:
    """What a commit of Delta's history says of the micro-batch that it is; None for the commits of others."""
    text = commit.get(METADATA)
    if not isinstance(text, str):
        return None
    document = json.loads(text)
    progress_ms, is_behind = document.get("progress", (None, False))
    return LoadBatch(
        query_id=document["query"],
        batch_id=document["batch"],
        topic=document["topic"],
        topic_id=None,
        ranges=tuple(LoadedRange(*one) for one in document["offsets"]),
        counts=tuple(map(BucketCount.of, document["counts"])),
        progress_ms=progress_ms,
        is_behind=is_behind,
    )


def batches_after(commits: Iterable[Mapping[str, Any]], query_id: str, after: int) -> list[LoadBatch]:
    """The micro-batches of a query after this one, oldest first, of commits of which the newest is first."""
    found: list[LoadBatch] = []
    for commit in commits:
        batch = read_metadata(commit)
        if batch is not None and batch.query_id == query_id:
            if batch.batch_id <= after:
                break
            found.append(batch)
    return found[::-1]


def joined(ranges: Sequence[LoadedRange]) -> tuple[LoadedRange, ...]:
    """One range per partition, where several tasks have read parts of it."""
    found: dict[int, LoadedRange] = {}
    for one in sorted(ranges):
        known = found.get(one.partition)
        found[one.partition] = one if known is None else LoadedRange(one.partition, known.start, max(known.end, one.end))
    return tuple(found.values())
