"""The mirror as a tier of the audit: which offsets the target has, as ranges without times; the auditor finds the buckets of the times.

Counted is what the target has acknowledged. The reports go to the topic `_audit` of the source, from a thread of their own. What
the target has already when a copy begins, and no report may have said, is reported then: what a process that was killed had copied, or an
append whose answer was lost. The auditor takes the union of the ranges. Markers of transactions are no messages, and bytes of keys and
values are not known to it.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from millstream.audit.reports.report import Kind, Report
from millstream.audited.audit_topic import AuditTopic
from millstream.audited.reporter import Reporter
from millstream.audited.settings import Audit, audit_settings
from millstream.client.security.client_security import NO_SECURITY, ClientSecurity
from millstream.mirror.copying.copied_batches import CopiedBatches
from millstream.topic_partition import TopicPartition


class AuditTier:
    """What one process copied; `copied` is called on the event loop, the rest by the reporter's thread."""

    def __init__(
        self,
        audit: Audit,
        source: str,
        *,
        target_cluster: Callable[[], str],
        progress_ms: Callable[[int], int | None],
        security: ClientSecurity = NO_SECURITY,
    ) -> None:
        """`progress_ms` says, at a time, up to which time of messages everything is copied; None if that is not known."""
        self._settings = audit_settings(audit)
        self._target_cluster = target_cluster
        self._progress_ms = progress_ms
        self.restart()
        self._reporter = Reporter(self._settings, self, open_topic=lambda: AuditTopic(source, security=security))

    def restart(self) -> None:
        """Begin anew, as another reporter, with nothing counted."""
        self._counter = self._settings.counter(Kind.MIRROR)
        self._lock = threading.Lock()
        self._counted: dict[TopicPartition, int] = {}
        """Up to where each partition was counted; then the same of what was taken for reports, and of what was published."""
        self._taken: dict[TopicPartition, int] = {}
        self._published: dict[TopicPartition, int] = {}

    def copied(self, partition: TopicPartition, batches: CopiedBatches) -> None:
        """The target has these batches."""
        with self._lock:
            for start, end in batches.messages:
                self._counter.add_range(partition.topic, partition.partition, start, end)
            self._counted[partition] = batches.next_offset
            is_new = self._counter.says_hello
        if is_new:
            self._reporter.announce()

    def found(self, partition: TopicPartition, *, audited: int, start: int, end: int) -> None:
        """The target begins and ends there: count what neither this process nor, as far as is known, another has reported."""
        with self._lock:
            begin = max(audited, start, self._counted.get(partition, -1))
            if begin < end:
                self._counter.add_range(partition.topic, partition.partition, begin, end)
            self._counted[partition] = end
            is_new = self._counter.says_hello
        if is_new:
            self._reporter.announce()

    def audited_to(self, partition: TopicPartition) -> int:
        """Up to where reports have been published; -1 if none of this process has."""
        with self._lock:
            return self._published.get(partition, -1)

    def close(self) -> None:
        """Publish what is left, and wait for that."""
        self._reporter.close()

    def settle(self) -> bool:
        """Nothing is open: what is counted is at the target."""
        return True

    def take(self, now_ms: int, *, is_last: bool) -> Sequence[Report]:
        """The reports of what was copied since the last call."""
        with self._lock:
            # The reporter asks for more when it has published what it had.
            self._published, self._taken = self._taken, dict(self._counted)
            reports = self._counter.take(now_ms, progress_ms=self._progress_ms(now_ms), is_last=is_last)
        target = self._target_cluster()
        return [replace(report, origin=report.origin._replace(target=target)) for report in reports]
