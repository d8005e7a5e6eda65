"""One auditor of one or several clusters: each in turn, the verdicts across all of them, and the alarms.

A cluster that cannot be reached is said once and tried again after a pause, while the others go on.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic, time
from typing import Final

from millstream.audit.alarm import AlarmBook
from millstream.audit.bucket_view import Logs
from millstream.audit.ledger import Ledger
from millstream.audit.remarks import remarks_on
from millstream.audit.verdict import Row, judge
from millstream.auditor.alarm_sinks import AlarmSinks
from millstream.auditor.cluster_auditor import ClusterAuditor
from millstream.auditor.settings import AuditorSettings
from millstream.auditor.snapshot import take_snapshot
from millstream.errors import MillstreamError

logger = logging.getLogger(__name__)

POLL_S: Final = 0.2
IDLE_S: Final = 1.0
JUDGE_S: Final = 5.0
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
MAX_REMARKS: Final = 1_000


class Auditor:
    """Runs until it is stopped."""

    def __init__(self, clusters: Sequence[AuditorSettings], *, alarms: AlarmSinks) -> None:
        self._turns = [_Turns(ClusterAuditor(settings)) for settings in clusters]
        self._judge_s = JUDGE_S
        self._book = AlarmBook(threshold=clusters[0].threshold)
        self._alarms = alarms
        self._judged = monotonic()
        self._compares = True
        self._remarked: set[tuple[str, ...]] = set()

    @property
    def raised(self) -> int:
        """How many alarms are raised at the moment."""
        return len(self._book)

    @property
    def malformed(self) -> int:
        """How many messages of `_audit` were no reports."""
        return sum(one.auditor.malformed for one in self._turns)

    def run(self, stop: threading.Event) -> None:
        """Audit until `stop` is set, then write the state and leave."""
        try:
            while not stop.is_set():
                waits = [one.turn() for one in self._turns]
                if monotonic() >= self._judged + self._judge_s:
                    self.judge()
                if not any(waits):
                    stop.wait(IDLE_S)
        finally:
            for one in self._turns:
                one.close()

    def judge(self) -> None:
        """Look at the buckets that are not finished; raise alarms, and move what is finished to the archive."""
        now_ms, began = int(time() * 1000), monotonic()
        for one in self._turns:
            for ledger in list(one.auditor.ledgers()):
                self._remark_on(ledger)
                judgement = one.auditor.judge(ledger, now_ms=now_ms)
                if len(self._turns) == 1:
                    self._raise_alarms(ledger, judgement.news, now_ms)
                one.auditor.finish(ledger.topic, judgement.rows, now_ms=now_ms)
        has_judged_all = not any(one.has_failed or one.auditor.is_behind for one in self._turns)
        if len(self._turns) > 1:
            has_judged_all &= self._judge_across()
        # Very many buckets that change, or the state of months of several clusters, take a while: that is done less often then.
        self._judge_s = pause_after(monotonic() - began, clusters=len(self._turns))
        if has_judged_all:
            self._book.forget_unseen()
        self._alarms.note_raised(self._book.counts())
        self._judged = monotonic()

    def _judge_across(self) -> bool:
        """Alarms about what happens between clusters. Other auditors may have some of their topics: what all of them have kept is read.
        False if that is not possible at the moment."""
        reachable = [one.auditor for one in self._turns if not one.has_failed]
        if not reachable:
            return False
        try:
            snapshot = take_snapshot([replace(one.settings, reads_logs=False) for one in reachable])
            for one in reachable:
                one.want(snapshot.ledgers)
        except MillstreamError as error:
            if self._compares:
                logger.warning("the clusters cannot be compared at the moment: %s", error)
            self._compares = False
            return False
        self._compares = True
        snapshot.join_archives()
        now_ms = int(time() * 1000)
        for topic, ledger in snapshot.ledgers.items():
            logs = _logs_of(reachable, topic, now_ms)
            self._raise_alarms(ledger, list(judge(ledger, now_ms=now_ms, grace_ms=reachable[0].settings.grace_ms, logs=logs)), now_ms)
        return True

    def _remark_on(self, ledger: Ledger) -> None:
        """Say what is odd about reporters, each thing once."""
        for remark in remarks_on(ledger):
            if remark.key not in self._remarked and len(self._remarked) < MAX_REMARKS:
                self._remarked.add(remark.key)
                logger.warning("audit: %s", remark.text)

    def _raise_alarms(self, ledger: Ledger, rows: list[Row], now_ms: int) -> None:
        for alarm in (*self._book.note_rows(rows, now_ms), *self._book.note_silence(ledger, now_ms)):
            self._alarms(alarm)


def pause_after(cost_s: float, *, clusters: int) -> float:
    """How long to wait before the buckets are judged again: reports come in meanwhile, and other processes want the machine."""
    return max(JUDGE_S, (20 if clusters > 1 else 4) * cost_s)


def _logs_of(clusters: Sequence[ClusterAuditor], topic: str, now_ms: int) -> Logs:
    """What is counted of a topic's logs in all of these clusters."""
    found = [one.logs_of(topic, now_ms) for one in clusters]
    return Logs(frozenset().union(*(logs.awaited for logs in found)), frozenset().union(*(logs.given_up for logs in found)))


class _Turns:
    """The turns of one cluster, with pauses while it cannot be reached."""

    def __init__(self, auditor: ClusterAuditor) -> None:
        self.auditor = auditor
        self._pause_s = FIRST_PAUSE_S
        self._not_before = 0.0
        self.has_failed = False

    def turn(self) -> bool:
        """Whether it waited for reports; not if the cluster is away or has none."""
        if monotonic() < self._not_before:
            return False
        try:
            self.auditor.turn(POLL_S)
        except MillstreamError as error:
            if not self.has_failed:
                logger.error("the audit of %s is held up, and goes on trying: %s", self.auditor.settings.brokers, error)
            self.has_failed = True
            self._not_before = monotonic() + self._pause_s
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
            return False
        if self.has_failed:
            logger.warning("the audit of %s goes on", self.auditor.settings.brokers)
        self._pause_s, self.has_failed = FIRST_PAUSE_S, False
        return self.auditor.open()

    def close(self) -> None:
        try:
            self.auditor.close()
        except MillstreamError as error:
            logger.warning(
                "the audit of %s could not write its state, and will count again from the last one: %s",
                self.auditor.settings.brokers,
                error,
            )
