"""The reports in `_audit`, read back by a test, and what they add up to."""

from collections.abc import Iterator

from millstream import ConsumedMessage, SimpleConsumer
from millstream.audit.counter import Counter
from millstream.audit.ledger import Ledger
from millstream.audit.reports.report import AUDIT_TOPIC, Kind, Origin, Report
from millstream.audit.reports.report_json import decode_report
from millstream.audit.verdict import Row, judge
from millstream.errors import UnknownTopicOrPartition

LATER_MS = 10**14
"""A time at which every bucket of a test is over and every reporter that has not said its last word is silent."""


def read_messages(brokers: str, topic: str) -> Iterator[ConsumedMessage]:
    """Everything in a topic; nothing if there is no such topic."""
    with SimpleConsumer(brokers) as consumer:
        try:
            partitions = consumer.partitions(topic)
        except UnknownTopicOrPartition:
            return
        for partition in partitions:
            offset = 0
            while messages := consumer.fetch(topic, partition, offset, max_wait_ms=0):
                yield from messages
                offset = messages[-1].offset + 1


def read_reports(brokers: str, topic: str) -> list[tuple[int, Report]]:
    """All reports of a topic by clients, with their offsets; an auditor beside the broker counts the log, when it gets to it."""
    messages = [one for one in read_messages(brokers, AUDIT_TOPIC) if one.key == topic.encode()]
    reports = [(one.offset, decode_report(one.payload or b"")) for one in messages]
    return [(offset, report) for offset, report in reports if report.origin.kind is not Kind.BROKER]


def read_rows(brokers: str, topic: str, *, with_log: bool = False) -> list[Row]:
    """What is to be said of each bucket and tier of a topic; with its log, the broker is one of the tiers."""
    ledger = Ledger(topic)
    reports = read_reports(brokers, topic)
    for offset, report in reports:
        ledger.apply(report, offset=offset, arrived_ms=report.sent_ms)
    if with_log:
        offset, last = reports[-1]
        ledger.apply(_broker_report(brokers, topic, last.origin.cluster), offset=offset + 1, arrived_ms=LATER_MS)
    return list(judge(ledger, now_ms=LATER_MS))


def totals(brokers: str, topic: str) -> dict[str, tuple[int, int]]:
    """For each tier, the messages that it counted over all buckets, and those that it counted again."""
    sums: dict[str, tuple[int, int]] = {}
    for row in read_rows(brokers, topic):
        count, repeated = sums.get(row.tier.name, (0, 0))
        sums[row.tier.name] = count + row.count, repeated + row.repeated
    return sums


def _broker_report(brokers: str, topic: str, cluster: str) -> Report:
    """What the broker's tier reports when it has read the whole log."""
    counter = Counter(Origin("broker", Kind.BROKER, "test", "", "", cluster))
    for message in read_messages(brokers, topic):
        counter.add(topic, message.timestamp_ms, 1, message.partition, offset=message.offset)
    [report] = counter.take(LATER_MS, progress_ms=LATER_MS, is_last=True)
    return report
