"""The auditor of one cluster: reports in, state out, and the logs read as the broker's tier.

One turn (`turn`) takes what came in `_audit`, reads what is new in logs and publishes it, and from time to time judges the buckets, moves
those that are finished to the archive, and writes the state. Nothing is kept that is not in `_audit` or in the state: a process that is
killed between any two steps is followed by one that counts the same. Blocking, in one thread.

A report whose schema cannot be asked for holds its partition of `_audit` (`held_partitions`). One that was written to another partition
than the topic's, because `_audit` got more partitions or its reporter uses another partitioner, is written again to the right one: a
report counts once, wherever and however often it is read.
"""

import logging
import socket
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic, time
from typing import Final
from weakref import WeakKeyDictionary

from millstream.audit.bucket_view import NO_LOGS, Logs
from millstream.audit.finished import finished_buckets, is_forgotten
from millstream.audit.judgement import Judgement, TopicJudge
from millstream.audit.ledger import Ledger
from millstream.audit.reports.report import AUDIT_STATE_TOPIC, AUDIT_TOPIC, Report
from millstream.audit.reports.report_json import encode_report
from millstream.audit.verdict import Row
from millstream.audited.audit_topic import CONFIGS, PARTITIONS
from millstream.auditor.audit_group import FORWARDED_HEADER, AuditGroup, AuditMessage
from millstream.auditor.broker_reports import BrokerReports
from millstream.auditor.held_partitions import HeldPartitions
from millstream.auditor.log_reader import PATIENCE_MS, LogReader, broker_origin
from millstream.auditor.report_decoder import ReportDecoder
from millstream.auditor.settings import AuditorSettings
from millstream.auditor.state_log import PartitionState
from millstream.auditor.state_topic import StateTaken, StateTopic, audit_topic_id
from millstream.client.admin.topic_creation import find_or_create
from millstream.client.cluster import Cluster
from millstream.client.codecs.produce import BatchFor
from millstream.client.key_partition import key_partition
from millstream.client.key_values import write_key_values
from millstream.errors import MillstreamError
from millstream.registry.errors import RegistryError
from millstream.topic_partition import TopicPartition
from millstream.wire.compression import Codec
from millstream.wire.records import Record, encode_batch

logger = logging.getLogger(__name__)

TIMEOUT_S: Final = 5.0
READ_S: Final = 1.0
FIND_TOPICS_S: Final = 10.0
ROUND_BYTES: Final = 64 << 20
"""So much is read of logs before reports are taken again: who does not ask for five minutes is put out of the group."""


class ClusterAuditor:
    """Audits one cluster; `turn` again and again, then `close`."""

    def __init__(self, settings: AuditorSettings) -> None:
        self.settings = settings
        self.malformed = 0
        """Messages of `_audit` that are no reports."""
        self._cluster = Cluster(settings.brokers, client_id="millstream-audit", timeout_s=TIMEOUT_S, security=settings.security)
        self._decoder = ReportDecoder(settings.registry)
        self._broker_reports = BrokerReports(self._cluster)
        self._state_topic = StateTopic(self._cluster)
        self._states: dict[int, PartitionState] = {}
        self._judges: WeakKeyDictionary[Ledger, TopicJudge] = WeakKeyDictionary()
        self._held = HeldPartitions()
        self._group: AuditGroup | None = None
        self._reader: LogReader | None = None
        self._spread = 0
        """Over how many partitions of `_audit` topics are spread."""
        self._wanted: set[str] = set()
        self._awaited_since: dict[str, int] = {}
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

    @property
    def is_behind(self) -> bool:
        """Whether reports wait that cannot be read at the moment."""
        return bool(self._held)

    def ledgers(self) -> Iterator[Ledger]:
        """Those of the topics that are this auditor's, as far as they can be judged: no report of them waits to be decoded."""
        for partition, state in self._states.items():
            if not self._held.is_behind(partition):
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
        self._spread = self._state_topic.open(len(topic.partitions))
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
        self._cluster.refresh(self._wanted)

    def turn(self, timeout_s: float) -> None:
        """Take in what came, read logs, and write the state when it is due; raises what keeps it from its work."""
        if not self.open():
            return
        try:
            self._take_reports(timeout_s)
        except MillstreamError:
            # The state of a new partition could not be read, most likely: join again, and go on where the state is.
            self._leave()
            raise
        if self.settings.reads_logs and monotonic() >= self._read_at:
            self._read_logs()
        if monotonic() >= self._flushed + self.settings.flush_s:
            try:
                self.flush()
            except StateTaken:
                # The group thinks otherwise, or will notice: join again.
                self._leave()
                raise
            self._leave_if_audit_is_anew()

    def judge(self, ledger: Ledger, *, now_ms: int) -> Judgement:
        """The verdicts on the buckets of a topic that are in memory."""
        judge = self._judges.setdefault(ledger, TopicJudge())
        return judge.judge(ledger, now_ms=now_ms, grace_ms=self.settings.grace_ms, logs=self.logs_of(ledger.topic, now_ms))

    def logs_of(self, topic: str, now_ms: int) -> Logs:
        """Whether the log of a topic is being counted in this cluster, and should be waited for."""
        if not self.settings.reads_logs:
            return NO_LOGS
        this = frozenset({self.cluster_id})
        if self._reader is not None and any(topic in state.ledgers for state in self._states.values()):
            return Logs(given_up=this) if self._reader.has_given_up(topic, now_ms) else Logs(awaited=this)
        # Another auditor has it, or it will be announced: that one may not have begun.
        known = self._cluster.metadata.topics.get(topic)
        if known is None or known.error_code or now_ms >= self._awaited_since.setdefault(topic, now_ms) + PATIENCE_MS:
            return NO_LOGS
        return Logs(awaited=this)

    def finish(self, topic: str, by_bucket: Mapping[int, list[Row]], *, now_ms: int) -> None:
        """Move buckets that nothing more is expected of to the archive, with their rows."""
        for state in self._states.values():
            ledger = state.ledgers.get(topic)
            if ledger is None:
                continue
            for start in finished_buckets(ledger, by_bucket, now_ms=now_ms):
                if state.may_finish(ledger.buckets[start]) and start not in ledger.changed:
                    state.finish(topic, start, [row for row in by_bucket.get(start, []) if row.tier in ledger.head.tiers])
            if self._reader is not None and self._reader.is_gone(topic, now_ms) and is_forgotten(ledger, now_ms):
                state.forget(topic)
                self._reader.forget(topic)

    def flush(self) -> None:
        """Write what changed; partitions that are another auditor's by now are dropped, and then that is raised."""
        taken: StateTaken | None = None
        for partition, state in list(self._states.items()):
            try:
                if state.has_changed:
                    self._state_topic.write(partition, state)
                    state.written()
                else:
                    self._state_topic.check(partition, state)
            except StateTaken as error:
                self._drop([partition])
                taken = error
        if self._group is not None:
            self._group.commit({partition: state.checkpoint for partition, state in self._states.items() if state.checkpoint})
        self._flushed = monotonic()
        if taken is not None:
            raise taken

    def close(self) -> None:
        """Write the state, leave the group."""
        try:
            if self._group is not None:
                self._hand_over(list(self._states))
        finally:
            self._leave()
            self._cluster.close()
            self._decoder.close()

    def _leave_if_audit_is_anew(self) -> None:
        """`_audit` was deleted and created again: join again, so that it is read from its start. What was counted of it is written."""
        self._cluster.refresh([AUDIT_TOPIC])
        topic_id = audit_topic_id(self._cluster)
        if topic_id is not None and any(state.topic_id not in (None, topic_id) for state in self._states.values()):
            self._leave()

    def _take_reports(self, timeout_s: float) -> None:
        assert self._group is not None
        for partition in self._held.due(monotonic()):
            if partition in self._states:
                self._group.go_on(partition, self._states[partition].position)
        for message in self._group.poll(timeout_s):
            self._take(message)

    def _leave(self) -> None:
        """Leave the group, if it was joined, without a word about the state."""
        self._drop(list(self._states))
        group, self._group = self._group, None
        if group is not None:
            group.close()

    def _take(self, message: AuditMessage) -> None:
        state = self._states.get(message.partition)
        if state is None or message.offset < state.position or self._held.is_held(message.partition):
            return
        try:
            self._count(state, message)
        except ValueError as error:
            self.malformed += 1
            logger.warning("message %d of %s-%d is no report: %s", message.offset, AUDIT_TOPIC, message.partition, error)
        except MillstreamError as error:
            self._hold(message.partition, error)
            return
        state.position = message.offset + 1
        if self._held.took(message.partition):
            logger.warning("partition %d of %s is read on", message.partition, AUDIT_TOPIC)

    def _count(self, state: PartitionState, message: AuditMessage) -> None:
        report = self._decoder.decode(message.value)
        home = key_partition(report.topic.encode(), self._spread)
        if home != message.partition and not message.is_forwarded:
            self._forward(home, report.topic, message)
            return
        if self._reader is None or not self._reader.has_sent(report):
            self._broker_reports.check(report)
        state.ledger(report.topic).apply(report, offset=message.offset, arrived_ms=message.arrived_ms)
        state.changed(report.topic)
        if self._reader is not None:
            self._reader.came_back(report)

    def _hold(self, partition: int, error: MillstreamError) -> None:
        """Nothing more is read of a partition until its next report can be."""
        assert self._group is not None
        self._group.hold(partition)
        if self._held.hold(partition, monotonic()):
            what = "a report in it needs its schema" if isinstance(error, RegistryError) else "a report in it belongs elsewhere"
            logger.error("partition %d of %s waits, and is tried again: %s, and %s", partition, AUDIT_TOPIC, what, error)

    def _read_logs(self) -> None:
        assert self._reader is not None
        now_ms = int(time() * 1000)
        self._find_topics()
        has_read = False
        share = ROUND_BYTES // max(len(self._states), 1)
        for partition, state in self._states.items():
            if not self._held.is_behind(partition):
                reports = self._reader.read(state.ledgers, now_ms=now_ms, most_bytes=share)
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
                partition = key_partition(name.encode(), self._spread)
                self._publish(partition, [self._reader.announcement(name, now_ms=int(time() * 1000))])

    def _publish(self, partition: int, reports: list[Report]) -> None:
        pairs = [(report.topic.encode(), encode_report(report)) for report in reports]
        write_key_values(self._cluster, TopicPartition(AUDIT_TOPIC, partition), pairs)

    def _forward(self, partition: int, topic: str, message: AuditMessage) -> None:
        record = Record(0, int(time() * 1000), topic.encode(), message.value, ((FORWARDED_HEADER, b""),))
        self._cluster.produce(BatchFor(AUDIT_TOPIC, partition, encode_batch([record], codec=Codec.LZ4)))

    def _load(self, partition: int) -> int:
        """The state of a partition that this auditor was given; returns where to go on in `_audit`."""
        state = self._state_topic.load(partition, bucket_ms=self.settings.bucket_ms)
        state.forget_archives()
        self._states[partition] = state
        logger.info("auditing partition %d of %s from offset %d on, %d topics", partition, AUDIT_TOPIC, state.position, len(state.ledgers))
        return state.position

    def _hand_over(self, partitions: list[int]) -> None:
        """Others take these partitions: write what they need to know, unless they have them already."""
        try:
            self.flush()
        except StateTaken as error:
            logger.warning("%s", error)
        self._drop(partitions)

    def _drop(self, partitions: list[int]) -> None:
        for partition in partitions:
            self._states.pop(partition, None)
            self._held.took(partition)
