"""Reports of the broker's tier are the auditors' own: whatever else claims to be one is no report.

Any client may write to `_audit`. A report about another cluster's log would keep buckets open for ever, since that log is not read on,
and one that claims to have read further than the log goes would end the counting of it. This keeps mistakes out, of clients and of tools
that copy `_audit`; against forgery it takes ACLs on the topic.
"""

import logging

from millstream.audit.reports.report import Kind, Report
from millstream.auditor.settings import BROKER_TIER
from millstream.client.cluster import Cluster
from millstream.errors import MillstreamError
from millstream.offset import LATEST
from millstream.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class BrokerReports:
    """Checks reports of one cluster's `_audit`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ends: dict[TopicPartition, int] = {}
        """Where partitions ended when they were asked for; they may have grown since."""

    def check(self, report: Report) -> None:
        """Raise a ValueError that says why, if the report is of the broker's tier and not an auditor's."""
        if report.origin.kind is not Kind.BROKER:
            return
        cluster_id = self._cluster.metadata.cluster_id or ""
        if (report.origin.tier, report.origin.cluster) != (BROKER_TIER, cluster_id):
            who = f"the tier {report.origin.tier!r} of the cluster {report.origin.cluster!r}"
            raise ValueError(f"only auditors count logs, each that of its own cluster ({cluster_id}), and it claims to be of {who}")
        read = {covered.partition: covered for covered in report.read}
        for count in report.counts:
            covered = read.get(count.partition)
            if covered is None or (count.offsets and not covered.start <= count.offsets.start < count.offsets.end <= covered.end):
                raise ValueError(f"it counts what it has not read of partition {count.partition} of {report.topic}")
        self._check_ends(report)

    def _check_ends(self, report: Report) -> None:
        claimed = {TopicPartition(report.topic, covered.partition): covered.end for covered in report.read}
        beyond = [place for place, end in claimed.items() if end > self._ends.get(place, 0)]
        if not beyond or not self._is_of_this_topic(report):
            return
        try:
            found = self._cluster.offsets(dict.fromkeys(beyond, LATEST))
        except MillstreamError as error:
            # A partition without a leader, say; its log is not read either until it has one.
            logger.debug("the end of %s cannot be compared with a report of it: %s", report.topic, error)
            return
        for place, known in found.items():
            self._ends[place] = known.offset
            if claimed[place] > known.offset:
                raise ValueError(f"it claims to have read {place} up to {claimed[place]}, and that ends at {known.offset}")

    def _is_of_this_topic(self, report: Report) -> bool:
        """Whether the topic has not been deleted, or created anew, since."""
        known = self._cluster.metadata.topics.get(report.topic)
        if known is None:
            known = self._cluster.refresh([report.topic]).topics.get(report.topic)
        if known is None or known.error_code or not all(covered.partition in known.partitions for covered in report.read):
            return False
        return None in (report.topic_id, known.topic_id) or report.topic_id == str(known.topic_id)
