"""The topic of committed offsets as a history of commits."""

import time
from collections.abc import Iterable, Iterator

from millstream.groups.offsets.records import decode_offset_key, decode_offset_value
from tests.cluster.faults.commits import CommitRecord
from tests.cluster.faults.groups import ReadRecord

_OFFSET_KEYS = (b"\0\0", b"\0\1")


def commits_in(records: Iterable[ReadRecord], *, topic: str) -> Iterator[CommitRecord]:
    """The commits of a topic's partitions, in their order; what else there is are groups and their members."""
    behind = time.time() - time.monotonic()
    for _, key, value in records:
        if key is None or value is None or key[:2] not in _OFFSET_KEYS:
            continue
        where, committed = decode_offset_key(key), decode_offset_value(value)
        if where.topic == topic:
            # confluent-kafka sends the zero at the end of a C string too.
            label = committed.metadata.rstrip("\0")
            written = committed.commit_timestamp_ms / 1000 - behind
            yield CommitRecord(where.group_id, where.partition, committed.offset, label, written)
