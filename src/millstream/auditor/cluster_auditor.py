"""The auditor of one cluster: reports in, state out, and the logs read as the broker's tier.

One turn (`turn`) takes what came in `_audit`, reads what is new in logs and publishes it, and from time to time judges the buckets, moves
those that are finished to the archive, and writes the state. Nothing is kept that is not in `_audit` or in the state: a process that is
killed between any two steps is followed by one that counts the same. Blocking, in one thread.
"""

import logging
import socket
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic, time
from typing import Final

from millstream.audit.ledger import MAX_OPEN_BUCKETS, Ledger
from millstream.audit.report import AUDIT_STATE_TOPIC, AUDIT_TOPIC, Report
from millstream.audit.report_json import encode_report
from millstream.audit.verdict import Row, Verdict, judge
from millstream.audited.audit_topic import CONFIGS, PARTITIONS
from millstream.auditor.audit_group import AuditGroup, AuditMessage
from millstream.auditor.log_reader import LogReader, broker_origin
from millstream.auditor.report_decoder import ReportDecoder
from millstream.auditor.settings import AuditorSettings
from millstream.auditor.state_log import Entry, PartitionState, read_state
from millstream.auditor.topic_reading import read_partition
from millstream.client.cluster import Cluster
from millstream.client.key_partition import key_partition
from millstream.client.key_values import write_key_values
from millstream.client.topic_creation import find_or_create
from millstream.errors import MillstreamError, UsageError
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

TIMEOUT_S: Final = 5.0
KEEP_FINISHED_MS: Final = 3_600_000
"""A complete bucket is kept with its offsets for so long after its end and the last word of a producer, for tiers that come late."""
KEEP_INCOMPLETE_MS: Final = 24 * 3_600_000
READ_S: Final = 1.0
FIND_TOPICS_S: Final = 10.0
STATE_CONFIG: Final = {"cleanup.policy": "compact", "max.message.bytes": str(8 << 20)}
_SETTLED: Final = frozenset({Verdict.COMPLETE, Verdict.SURPLUS, Verdict.UNKNOWN})


class ClusterAuditor:
    """Audits one cluster; `turn` again and again, then `close`."""

    def __init__(self, settings: AuditorSettings) -> None:
        self.settings = settings
        self.malformed = 0
        """Messages of `_audit` that are no reports."""
        self._cluster = Cluster(settings.brokers, client_id="millstream-audit", timeout_s=TIMEOUT_S, security=settings.security)
        self._decoder = ReportDecoder(settings.registry)
        self._states: dict[int, PartitionState] = {}
        self._group: AuditGroup | None = None
        self._reader: LogReader | None = None
        self._audit_partitions = 0
        self._wanted: set[str] = set()
        self._announced: set[str] = set()
        self._flushed = monotonic()
        self._read_at = self._find_at = 0.0

    @property
    def cluster_id(self) -> str:
        """Id of the cluster, once it was reached."""
        return self._cluster.metadata.cluster_id or ""

    @property
    def position(self) -> int:
        """How many reports were read, of all partitions."""
        return sum(state.position for state in self._states.values())

    def ledgers(self) -> Iterator[Ledger]:
        """Those of the topics that are this auditor's."""
        for state in self._states.values():
            yield from state.ledgers.values()

    def open(self) -> bool:
        """Join the group, if there is anything to audit: False while no tier has reported yet."""
        if self._group is not None:
            return True
        topic = self._cluster.refresh([AUDIT_TOPIC]).topics.get(AUDIT_TOPIC)
        if self._wanted or self.settings.topics is not None:
            topic = find_or_create(self._cluster, AUDIT_TOPIC, partitions=PARTITIONS, configs=CONFIGS)
        if topic is None or topic.error_code:
            return False
        self._audit_partitions = len(topic.partitions)
        state = find_or_create(self._cluster, AUDIT_STATE_TOPIC, partitions=self._audit_partitions, configs=STATE_CONFIG)
        if len(state.partitions) < self._audit_partitions:
            numbers = f"{AUDIT_TOPIC} has {self._audit_partitions} partitions and {AUDIT_STATE_TOPIC} {len(state.partitions)}"
            raise UsageError(f"{numbers}: each needs one of its own for its state; give {AUDIT_STATE_TOPIC} as many.")
        origin = broker_origin(cluster_id=self.cluster_id, host=socket.gethostname(), datacentre=self.settings.datacentre)
        self._reader = LogReader(self._cluster, origin, bucket_ms=self.settings.bucket_ms)
        self._group = AuditGroup(
            self.settings.client_options,
            group=self.settings.group,
            on_assigned=self._load,
            on_revoked=self._hand_over,
            on_lost=self._drop,
        )
        return True

    def want(self, topics: Iterable[str]) -> None:
        """Topics that other clusters have reports of: a mirror may write them here, so their logs are counted, where they exist."""
        self._wanted = set(topics)

    def turn(self, timeout_s: float) -> None:
        """Take in what came, read logs, and write the state when it is due; raises what keeps it from its work."""
        if not self.open():
            return
        for message in self._poll(timeout_s):
            self._take(message)
        if self.settings.reads_logs and monotonic() >= self._read_at:
            self._read_logs()
        if monotonic() >= self._flushed + self.settings.flush_s:
            self.flush()

    def judge(self, ledger: Ledger, *, now_ms: int) -> list[Row]:
        """The rows of the buckets of a topic that are in memory."""
        return list(judge(ledger, now_ms=now_ms, grace_ms=self.settings.grace_ms))

    def finish(self, topic: str, rows: list[Row], *, now_ms: int) -> None:
        """Move buckets that nothing more is expected of to the archive."""
        by_bucket: dict[int, list[Row]] = {}
        for row in rows:
            by_bucket.setdefault(row.bucket, []).append(row)
        for state in self._states.values():
            ledger = state.ledgers.get(topic)
            if ledger is None:
                continue
            for start in finished_buckets(ledger, by_bucket, now_ms=now_ms):
                if state.may_finish(ledger.buckets[start]) and start not in ledger.changed:
                    state.finish(topic, start, [row for row in by_bucket.get(start, []) if row.tier in ledger.head.tiers])

    def flush(self) -> None:
        """Write what changed."""
        for partition, state in self._states.items():
            if state.has_changed:
                self._write_state(partition, list(state.entries()))
                state.written()
        if self._group is not None:
            self._group.commit({partition: state.checkpoint for partition, state in self._states.items() if state.checkpoint})
        self._flushed = monotonic()

    def close(self) -> None:
        """Write the state, leave the group."""
        if self._group is not None:
            self._hand_over(list(self._states))
            self._group.close()
            self._group = None
        self._cluster.close()
        self._decoder.close()

    def _poll(self, timeout_s: float) -> list[AuditMessage]:
        assert self._group is not None
        try:
            return self._group.poll(timeout_s)
        except MillstreamError:
            # Most likely the state of a new partition could not be read: join again, with nothing assigned.
            self._states.clear()
            self._group.close()
            self._group = None
            raise

    def _take(self, message: AuditMessage) -> None:
        state = self._states.get(message.partition)
        if state is None or message.offset < state.position:
            return
        state.position = message.offset + 1
        try:
            report = self._decoder.decode(message.value)
        except ValueError as error:
            self.malformed += 1
            logger.warning("message %d of %s-%d is no report: %s", message.offset, AUDIT_TOPIC, message.partition, error)
            return
        state.ledger(report.topic).apply(report, offset=message.offset, arrived_ms=message.arrived_ms)
        state.changed(report.topic)
        if self._reader is not None:
            self._reader.came_back(report)

    def _read_logs(self) -> None:
        assert self._reader is not None
        now_ms = int(time() * 1000)
        self._find_topics()
        has_read = False
        for partition, state in self._states.items():
            reports = self._reader.read(state.ledgers, now_ms=now_ms)
            has_read |= any(report.read for report in reports)
            self._publish(partition, reports)
        # While there is much to read it goes on at once; else the brokers are asked once in a while whether there is.
        self._read_at = 0.0 if has_read else monotonic() + READ_S

    def _find_topics(self) -> None:
        """Announce topics that are to be read though no tier has reported of them here, to whichever auditor has their partition."""
        assert self._reader is not None
        if monotonic() < self._find_at or not (self._wanted or self.settings.topics):
            return
        self._find_at = monotonic() + FIND_TOPICS_S
        for name in self._cluster.refresh().topics:
            is_wanted = name in self._wanted or (self.settings.topics is not None and self.settings.topics.fullmatch(name))
            if is_wanted and name not in self._announced and name not in (AUDIT_TOPIC, AUDIT_STATE_TOPIC):
                self._announced.add(name)
                partition = key_partition(name.encode(), self._audit_partitions)
                self._publish(partition, [self._reader.announcement(name, now_ms=int(time() * 1000))])

    def _publish(self, partition: int, reports: list[Report]) -> None:
        pairs: list[Entry] = [(report.topic.encode(), encode_report(report)) for report in reports]
        write_key_values(self._cluster, TopicPartition(AUDIT_TOPIC, partition), pairs)

    def _load(self, partition: int) -> int:
        """The state of a partition that this auditor was given; returns where to go on in `_audit`."""
        place = TopicPartition(AUDIT_STATE_TOPIC, partition)
        records = read_partition(self._cluster, place)
        state = read_state(((record.key or b"", record.value) for record in records), bucket_ms=self.settings.bucket_ms)
        state.forget_archives()
        self._states[partition] = state
        logger.info("auditing partition %d of %s from offset %d on, %d topics", partition, AUDIT_TOPIC, state.position, len(state.ledgers))
        return state.position

    def _hand_over(self, partitions: list[int]) -> None:
        """Others take these partitions: write what they need to know."""
        self.flush()
        self._drop(partitions)

    def _drop(self, partitions: list[int]) -> None:
        for partition in partitions:
            self._states.pop(partition, None)

    def _write_state(self, partition: int, entries: list[Entry]) -> None:
        write_key_values(self._cluster, TopicPartition(AUDIT_STATE_TOPIC, partition), entries)


def finished_buckets(ledger: Ledger, rows: Mapping[int, list[Row]], *, now_ms: int) -> list[int]:
    """Starts of the buckets that nothing more is expected of. Of too many, also those that nothing was said of for longest."""
    found = []
    crowded = len(ledger.buckets) - MAX_OPEN_BUCKETS
    for number, bucket in enumerate(sorted(ledger.buckets.values(), key=lambda bucket: bucket.position)):
        end_ms = bucket.start + ledger.bucket_ms
        if bucket.arrived_ms <= now_ms:
            # Messages of old times may still be sent: what is reported of them must find the bucket with all that was counted before.
            end_ms = max(end_ms, bucket.arrived_ms)
        if number < crowded or _is_finished(rows.get(bucket.start, []), end_ms, now_ms):
            found.append(bucket.start)
    return found


def _is_finished(rows: list[Row], end_ms: int, now_ms: int) -> bool:
    if not rows or any(row.verdict is Verdict.OPEN for row in rows):
        return not rows and now_ms >= end_ms + KEEP_INCOMPLETE_MS
    is_settled = all(row.verdict in _SETTLED for row in rows)
    return now_ms >= end_ms + (KEEP_FINISHED_MS if is_settled else KEEP_INCOMPLETE_MS)
