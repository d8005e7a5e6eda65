"""A topic of a real broker with tiers that report of it: messages written to its log, and reports to `_audit`, by raw batches."""

import time
from typing import Self

from millstream.audit.counter import Counter
from millstream.audit.reports.report import AUDIT_TOPIC, DEFAULT_BUCKET_MS, Kind, Origin, Report
from millstream.audit.reports.report_json import encode_report
from millstream.audited.audit_topic import AuditTopic
from millstream.client.admin.topic_creation import find_or_create
from millstream.client.cluster import Cluster
from millstream.client.codecs.produce import BatchFor
from millstream.client.key_partition import key_partition
from millstream.wire.compression import Codec
from millstream.wire.records import Record, encode_batch, encode_key_values

AUDIT_PARTITIONS = 2


def old_bucket() -> int:
    """The start of a bucket that is over."""
    now_ms = int(time.time() * 1000)
    return now_ms - now_ms % DEFAULT_BUCKET_MS - 6 * DEFAULT_BUCKET_MS


class AuditedTopic:
    """A topic with two partitions, in a cluster with `_audit` or without."""

    def __init__(self, bootstrap_servers: str, name: str, *, is_audited: bool = True) -> None:
        self.name = name
        self.bucket = old_bucket()
        self._audit_partitions = AUDIT_PARTITIONS
        self._cluster = Cluster(bootstrap_servers)
        self.cluster_id = self._cluster.refresh([]).cluster_id or ""
        if is_audited:
            find_or_create(self._cluster, AUDIT_TOPIC, partitions=AUDIT_PARTITIONS, configs={})
        find_or_create(self._cluster, name, partitions=2, configs={})
        self._ends = {0: 0, 1: 0}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    def audit_has(self, partitions: int) -> None:
        """Reports go to one of so many partitions of `_audit` from now on."""
        self._audit_partitions = partitions
        self._cluster.refresh([AUDIT_TOPIC])

    def write(self, count: int, partition: int = 0, *, codec: Codec = Codec.NONE) -> None:
        """Messages of the bucket, in one batch."""
        records = [Record(number, self.bucket + number, b"k", b"value") for number in range(count)]
        self._cluster.produce(BatchFor(self.name, partition, encode_batch(records, codec=codec)))
        self._ends[partition] += count

    def tier(self, name: str, kind: Kind) -> Counter:
        """A reporter."""
        return Counter(Origin(name, kind, "test", "here", "dc1", self.cluster_id))

    def sent(self, count: int, partition: int = 0, *, name: str = "web", by: AuditTopic | None = None) -> None:
        """A producer that reports so many messages, and ends."""
        counter = self.tier(name, Kind.PRODUCER)
        counter.add_batch(self.name, self.bucket, count, count * 6, partition=partition)
        (by or self).publish(counter.take(int(time.time() * 1000), is_last=True))

    def handled(self, *ranges: tuple[int, int], partition: int = 0, name: str = "billing") -> None:
        """A consumer that reports so many offsets, and ends."""
        counter = self.tier(name, Kind.CONSUMER)
        for start, end in ranges:
            counter.add_batch(self.name, self.bucket, end - start, 6 * (end - start), partition=partition, first_offset=start)
        self.publish(counter.take(int(time.time() * 1000), is_last=True))

    def copied(self, count: int, *, to: "AuditedTopic") -> None:
        """A mirror that reports so many messages of the first partition, and ends."""
        counter = Counter(Origin("copy", Kind.MIRROR, "test", "here", "dc2", self.cluster_id, target=to.cluster_id))
        counter.add_range(self.name, 0, 0, count)
        self.publish(counter.take(int(time.time() * 1000), is_last=True))

    def publish(self, reports: list[Report]) -> None:
        """Write reports to `_audit`."""
        self.publish_raw([encode_report(report) for report in reports])

    def publish_raw(self, messages: list[bytes]) -> None:
        """Write anything to `_audit`, where the reports of this topic go."""
        key = self.name.encode()
        encoded = encode_key_values([(key, message) for message in messages], timestamp=int(time.time() * 1000))
        self._cluster.produce(BatchFor(AUDIT_TOPIC, key_partition(key, self._audit_partitions), encoded))
