"""The reports in `_audit`, read back by a test, and what they add up to."""

from millstream import SimpleConsumer
from millstream.audit.ledger import Ledger
from millstream.audit.report import AUDIT_TOPIC, Report
from millstream.audit.report_json import decode_report
from millstream.audit.verdict import Row, judge
from millstream.errors import UnknownTopicOrPartition

LATER_MS = 10**14
"""A time at which every bucket of a test is over and every reporter that has not said its last word is silent."""


def read_reports(brokers: str, topic: str) -> list[tuple[int, Report]]:
    """All reports of a topic, with their offsets."""
    found = []
    with SimpleConsumer(brokers) as consumer:
        try:
            partitions = consumer.partitions(AUDIT_TOPIC)
        except UnknownTopicOrPartition:
            return []
        for partition in partitions:
            offset = 0
            while messages := consumer.fetch(AUDIT_TOPIC, partition, offset, max_wait_ms=0):
                found += [(one.offset, decode_report(one.payload or b"")) for one in messages if one.key == topic.encode()]
                offset = messages[-1].offset + 1
    return found


def read_rows(brokers: str, topic: str, *, now_ms: int = LATER_MS) -> list[Row]:
    """What is to be said of each bucket and tier of a topic."""
    ledger = Ledger(topic)
    for offset, report in read_reports(brokers, topic):
        ledger.apply(report, offset=offset, arrived_ms=report.sent_ms)
    return list(judge(ledger, now_ms=now_ms))


def totals(brokers: str, topic: str) -> dict[str, tuple[int, int]]:
    """For each tier, the messages that it counted over all buckets, and those that it counted again."""
    sums: dict[str, tuple[int, int]] = {}
    for row in read_rows(brokers, topic):
        count, repeated = sums.get(row.tier.name, (0, 0))
        sums[row.tier.name] = count + row.count, repeated + row.repeated
    return sums
