"""The audit of one or several clusters as it is now: the state, the reports that are newer, and what of the logs has not been counted yet.

Needs no auditor that runs: what it would do is done here, and nothing is written. Whoever asks about some topics only pays for these: other
records are skipped by their keys, and of one topic by name only its partition is read.
"""

import logging
import socket
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from time import time

from millstream.audit.archive import Archive
from millstream.audit.ledger import Ledger
from millstream.audit.reports.report import AUDIT_STATE_TOPIC, AUDIT_TOPIC, Report
from millstream.audit.topic_head import TierHead
from millstream.auditor.broker_reports import BrokerReports
from millstream.auditor.log_reader import LogReader, broker_origin
from millstream.auditor.report_decoder import ReportDecoder
from millstream.auditor.settings import AuditorSettings
from millstream.auditor.state_log import PartitionState, Wants, everything, read_state
from millstream.auditor.state_topic import begin_again_if_anew, state_entries
from millstream.auditor.topic_reading import read_partition
from millstream.client.cluster import Cluster
from millstream.client.key_partition import key_partition
from millstream.errors import UsageError
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

TIMEOUT_S = 10.0


@dataclass
class Snapshot:
    """What is known of every topic, of all clusters together."""

    bucket_ms: int
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    archives: dict[str, list[Archive]] = field(default_factory=dict)
    malformed: int = 0
    """Messages of `_audit` that are no reports, as far as they were read."""
    unwanted: set[str] = field(default_factory=set)
    """Topics that were not asked for."""

    def topics(self) -> list[str]:
        """All topics of which anything is known."""
        return sorted({*self.ledgers, *self.archives})

    def ledger(self, topic: str) -> Ledger:
        """That of a topic; an empty one if all of it is in the archive."""
        return self.ledgers.get(topic) or Ledger(topic, bucket_ms=self.bucket_ms)

    def add(self, state: PartitionState) -> None:
        """What one partition of one cluster's audit has."""
        for topic, ledger in state.ledgers.items():
            self.ledgers.setdefault(topic, Ledger(topic, bucket_ms=self.bucket_ms)).merge(ledger)
        for archive in state.archives.values():
            self.archives.setdefault(archive.topic, []).append(archive)
        self.unwanted |= state.unwanted

    def join_archives(self) -> None:
        """Add to the buckets of ledgers what archives have of them: of several clusters one may have finished a bucket before another."""
        for topic, ledger in self.ledgers.items():
            for archive in self.archives.get(topic, []):
                if ledger.buckets.keys().isdisjoint(archive.starts):
                    continue
                for tier in archive.tiers:
                    ledger.head.tiers.setdefault(tier, TierHead())
                for position, start in enumerate(archive.starts):
                    if start in ledger.buckets:
                        ledger.add_part(archive.bucket_at(position))


def take_snapshot(clusters: Sequence[AuditorSettings], *, wants: Wants = everything, topic: str | None = None) -> Snapshot:
    """Read what the clusters have of topics that are wanted, or of one; raises if one of them, or the registry, does not answer. A topic
    that one of them knows is looked for in all."""
    snapshot = Snapshot(clusters[0].bucket_ms)
    with ExitStack() as stack:
        found: list[_ClusterReading] = []
        for settings in clusters:
            cluster = stack.enter_context(
                Cluster(settings.brokers, client_id="millstream-audit", timeout_s=TIMEOUT_S, security=settings.security)
            )
            _check_not_named_before(cluster, settings, [other.cluster for other in found])
            reading = _ClusterReading(cluster, settings, wants if topic is None else topic.__eq__)
            reading.read([topic] if topic is not None else None)
            snapshot.malformed += reading.malformed
            found.append(reading)
        topics = {name for reading in found for state in reading.states.values() for name in state.ledgers}
        for reading in found:
            if reading.settings.reads_logs:
                reading.read_logs(topics)
            for state in reading.states.values():
                snapshot.add(state)
    return snapshot


def _check_not_named_before(cluster: Cluster, settings: AuditorSettings, others: Iterable[Cluster]) -> None:
    """One cluster that is named twice would be counted twice."""
    cluster_id = cluster.refresh([]).cluster_id
    if cluster_id and any(cluster_id == other.metadata.cluster_id for other in others):
        raise UsageError(
            f"--brokers {settings.brokers}: the cluster {cluster_id} was named before; "
            "give several brokers of one cluster in one --brokers, with commas between them."
        )


class _ClusterReading:
    """What one cluster has; `states` by partition of `_audit`."""

    def __init__(self, cluster: Cluster, settings: AuditorSettings, wants: Wants) -> None:
        self.settings = settings
        self.states: dict[int, PartitionState] = {}
        self.malformed = 0
        self.cluster = cluster
        self._wants = wants
        self._broker_reports = BrokerReports(cluster)
        self._has_state: Collection[int] = ()
        self._elsewhere: list[tuple[Report, int]] = []
        """Reports that no auditor has put where they belong yet, and when they came."""

    def read(self, names: list[str] | None) -> None:
        """The state, and reports that are newer; with names, of these topics."""
        known = self.cluster.refresh([AUDIT_TOPIC, AUDIT_STATE_TOPIC]).topics
        partitions = {name: sorted(topic.partitions) if not topic.error_code else [] for name, topic in known.items()}
        audited, self._has_state = partitions.get(AUDIT_TOPIC, []), partitions.get(AUDIT_STATE_TOPIC, [])
        if not audited:
            return
        first = self._state(0)
        spread = min(first.spread or len(audited), len(audited))
        # Of topics by name only their partitions are needed; but with more partitions than at first reports may be anywhere.
        needed = audited if names is None or len(audited) > spread else sorted({key_partition(name.encode(), spread) for name in names})
        with ReportDecoder(self.settings.registry) as decoder:
            for partition in needed:
                self.states[partition] = first if partition == 0 else self._state(partition)
                self._read_reports(partition, decoder, spread)
        for report, arrived_ms in self._elsewhere:
            state = self.states[key_partition(report.topic.encode(), spread)]
            state.ledger(report.topic).apply(report, offset=state.position, arrived_ms=arrived_ms)
            state.position += 1

    def read_logs(self, topics: set[str]) -> None:
        """Count what is in the logs and in no report; also of topics that only other clusters have reports of."""
        origin = broker_origin(
            cluster_id=self.cluster.metadata.cluster_id or "", host=socket.gethostname(), datacentre=self.settings.datacentre
        )
        elsewhere = PartitionState(self.settings.bucket_ms)
        for topic in topics.difference(*(state.ledgers for state in self.states.values())):
            elsewhere.ledger(topic)
        self.states[-1] = elsewhere
        reader = LogReader(self.cluster, origin, bucket_ms=self.settings.bucket_ms)
        for state in self.states.values():
            _read_logs(reader, state)

    def _state(self, partition: int) -> PartitionState:
        entries = state_entries(self.cluster, partition) if partition in self._has_state else iter(())
        return read_state(entries, bucket_ms=self.settings.bucket_ms, wants=self._wants)

    def _read_reports(self, partition: int, decoder: ReportDecoder, spread: int) -> None:
        """Count the reports that are newer than the state."""
        state = self.states[partition]
        begin_again_if_anew(self.cluster, partition, state)
        for record in read_partition(self.cluster, TopicPartition(AUDIT_TOPIC, partition), start=state.position):
            state.position = record.offset + 1
            try:
                key = (record.key or b"").decode()
                if key and not self._wants(key):
                    state.unwanted.add(key)
                    continue
                report = decoder.decode(record.value)
                self._broker_reports.check(report)
            except ValueError as error:
                self.malformed += 1
                logger.warning("message %d of %s-%d is no report: %s", record.offset, AUDIT_TOPIC, partition, error)
                continue
            if not self._wants(report.topic):
                continue
            if key_partition(report.topic.encode(), spread) == partition or record.headers:
                state.ledger(report.topic).apply(report, offset=record.offset, arrived_ms=record.timestamp)
            else:
                self._elsewhere.append((report, record.timestamp))


def _read_logs(reader: LogReader, state: PartitionState) -> None:
    """Count what is in the logs and in no report yet, up to the end that they have at this moment."""
    numbers = count(state.position)
    waiting = dict(state.ledgers)
    now_ms = int(time() * 1000)
    ends = reader.ends(waiting)
    while waiting:
        reports = reader.read(waiting, now_ms=now_ms, ends=ends)
        for report in reports:
            state.ledgers[report.topic].apply(report, offset=next(numbers), arrived_ms=now_ms)
            reader.came_back(report)
        waiting = {report.topic: state.ledgers[report.topic] for report in reports if report.read}
