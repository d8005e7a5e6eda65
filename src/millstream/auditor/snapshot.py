"""The audit of one or several clusters as it is now: the state, the reports that are newer, and what of the logs nobody has counted yet.

Needs no auditor that runs: what it would do is done here, and nothing is written.
"""

import logging
import socket
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from time import time

from millstream.audit.archive import Archive
from millstream.audit.ledger import Ledger
from millstream.audit.report import AUDIT_STATE_TOPIC, AUDIT_TOPIC
from millstream.audit.topic_head import TierHead
from millstream.auditor.log_reader import LogReader, broker_origin
from millstream.auditor.report_decoder import ReportDecoder
from millstream.auditor.settings import AuditorSettings
from millstream.auditor.state_log import PartitionState, read_state
from millstream.auditor.topic_reading import read_partition
from millstream.client.cluster import Cluster
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


def take_snapshot(clusters: Sequence[AuditorSettings]) -> Snapshot:
    """Read what the clusters have; raises if one of them does not answer. A topic that one of them knows is looked for in all."""
    snapshot = Snapshot(clusters[0].bucket_ms)
    with ExitStack() as stack:
        found: list[tuple[AuditorSettings, Cluster, list[PartitionState]]] = []
        for settings in clusters:
            cluster = stack.enter_context(
                Cluster(settings.brokers, client_id="millstream-audit", timeout_s=TIMEOUT_S, security=settings.security)
            )
            _check_not_named_before(cluster, settings, [other for _, other, _ in found])
            found.append((settings, cluster, _states(cluster, settings, snapshot)))
        topics = {topic for _, _, states in found for state in states for topic in state.ledgers}
        for settings, cluster, states in found:
            if settings.reads_logs:
                _read_all_logs(cluster, settings, states, topics)
            for state in states:
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


def _states(cluster: Cluster, settings: AuditorSettings, snapshot: Snapshot) -> list[PartitionState]:
    known = cluster.refresh([AUDIT_TOPIC, AUDIT_STATE_TOPIC]).topics
    partitions = {name: sorted(topic.partitions) if not topic.error_code else [] for name, topic in known.items()}
    states = []
    with ReportDecoder(settings.registry) as decoder:
        for partition in partitions.get(AUDIT_TOPIC, []):
            has_state = partition in partitions.get(AUDIT_STATE_TOPIC, [])
            entries = read_partition(cluster, TopicPartition(AUDIT_STATE_TOPIC, partition)) if has_state else iter(())
            state = read_state(((record.key or b"", record.value) for record in entries), bucket_ms=settings.bucket_ms)
            snapshot.malformed += _read_reports(cluster, partition, state, decoder)
            states.append(state)
    return states


def _read_all_logs(cluster: Cluster, settings: AuditorSettings, states: list[PartitionState], topics: set[str]) -> None:
    """Count what is in the logs of a cluster and in no report; also of topics that only other clusters have reports of."""
    origin = broker_origin(cluster_id=cluster.metadata.cluster_id or "", host=socket.gethostname(), datacentre=settings.datacentre)
    elsewhere = PartitionState(settings.bucket_ms)
    for topic in topics.difference(*(state.ledgers for state in states)):
        elsewhere.ledger(topic)
    states.append(elsewhere)
    reader = LogReader(cluster, origin, bucket_ms=settings.bucket_ms)
    for state in states:
        _read_logs(reader, state)


def _read_reports(cluster: Cluster, partition: int, state: PartitionState, decoder: ReportDecoder) -> int:
    """Count the reports that are newer than the state; returns how many messages were none."""
    malformed = 0
    for record in read_partition(cluster, TopicPartition(AUDIT_TOPIC, partition), start=state.position):
        state.position = record.offset + 1
        try:
            report = decoder.decode(record.value)
        except ValueError as error:
            malformed += 1
            logger.warning("message %d of %s-%d is no report: %s", record.offset, AUDIT_TOPIC, partition, error)
            continue
        state.ledger(report.topic).apply(report, offset=record.offset, arrived_ms=record.timestamp)
    return malformed


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
