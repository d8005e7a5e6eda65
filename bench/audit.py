"""The audit: what counting costs a producer, how fast the auditor counts logs, and a report over a thousand topics with a thousand buckets.

Counting is measured in CPU time per batch. The report is all that `millstream audit report --html` does after its imports: the state is
read from a broker, summed, and made into a page. The state is that of an auditor that ran for a week.
"""

from pathlib import Path
from time import perf_counter, process_time, time

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from millstream.audit.archive import DAY_MS, Archive
from millstream.audit.counter import Counter
from millstream.audit.ledger import Bucket
from millstream.audit.reports.report import AUDIT_STATE_TOPIC, AUDIT_TOPIC, DEFAULT_BUCKET_MS, Kind, Origin
from millstream.audit.summary import Selection, TopicAudit
from millstream.audit.topic_head import Tier
from millstream.audit.verdict import Place, Row, Verdict
from millstream.auditor.log_counter import LogCounter
from millstream.auditor.settings import AuditorSettings
from millstream.auditor.snapshot import take_snapshot
from millstream.cli.audit.page import audit_page
from millstream.client.admin.topic_creation import find_or_create
from millstream.client.cluster import Cluster
from millstream.client.codecs.produce import BatchFor
from millstream.topic_partition import TopicPartition
from millstream.wire.compression import Codec
from millstream.wire.records import KeyValue, Record, encode_batch, encode_key_values

TURNS = 20
BATCHES = 20_000
TIERS = [Tier("web", Kind.PRODUCER, "live"), Tier("broker", Kind.BROKER, "live"), Tier("billing", Kind.CONSUMER, "live")]
FIRST_DAY = 20_000


class AuditCounting(Case):
    """What a tier pays for a batch, with and without delays; and how many messages of a log are counted in a second of CPU time."""

    name = "audit-counting"
    title = "counting batches in a producer, and logs in the auditor"
    isolated = True
    metrics = (
        Metric("producer, per batch", "us", Bar(1.0, "at most", "value")),
        Metric("producer with delays, per batch", "us"),
        Metric("auditor, of a log", "messages/s", summary="max"),
    )

    def run(self, context: Context) -> Values:
        plain, delayed = (min(self._turn(delay) for _ in range(TURNS)) for delay in (None, 12))
        return {"producer, per batch": plain, "producer with delays, per batch": delayed, "auditor, of a log": self._log_rate()}

    def _turn(self, delay_ms: int | None) -> float:
        counter = Counter(Origin("web", Kind.PRODUCER, "bench", "here", "dc", "live"))
        now_ms = int(time() * 1000)
        began = process_time()
        for _ in range(BATCHES):
            counter.add_batch("orders", now_ms, 500, 60_000, partition=3, delay_ms=delay_ms)
        return (process_time() - began) / BATCHES * 1e6

    def _log_rate(self) -> float:
        records = [Record(number, number % 1000, b"key", b"v" * 100) for number in range(1000)]
        batches = b"".join(encode_batch([one._replace(offset=one.offset + start) for one in records]) for start in range(0, 50_000, 1000))
        place = TopicPartition("orders", 0)
        rate = 0.0
        for _ in range(TURNS):
            counter = LogCounter(place, start=0, end=50_000, bucket_ms=DEFAULT_BUCKET_MS)
            began = process_time()
            counter.count(memoryview(batches))
            rate = max(rate, 50_000 / (process_time() - began))
        return rate


class AuditReport(Case):
    """State on a broker to a page."""

    isolated = True
    max_rounds = 3

    def __init__(self, topics: int, buckets: int) -> None:
        self.topics = topics
        self.buckets = buckets
        self.name = f"audit-report-{topics}x{buckets}"
        self.title = f"a report over {topics} topics and {buckets} buckets"
        self.metrics = (
            Metric("time", "s", Bar(1.0, "at most", "value")),
            Metric("CPU", "s"),
            Metric("reading", "s"),
            Metric("page", "MB"),
        )

    def run(self, context: Context) -> Values:
        directory = context.directory / f"round-{context.round_number}"
        broker = context.peer.start(directory)
        try:
            _fill(broker.bootstrap_servers, self.topics, self.buckets)
            return self._measure(broker.bootstrap_servers, directory / "audit.html")
        finally:
            broker.stop()

    def _measure(self, bootstrap_servers: str, page: Path) -> Values:
        began, cpu = perf_counter(), process_time()
        snapshot = take_snapshot([AuditorSettings({"bootstrap.servers": bootstrap_servers})])
        read = perf_counter() - began
        now_ms = int(time() * 1000)
        audits = [TopicAudit(snapshot.ledger(name), snapshot.archives[name], now_ms=now_ms) for name in snapshot.topics()]
        summaries = [audit.summary(Selection()) for audit in audits]
        page.write_text(audit_page(summaries, made="now"))
        seconds = perf_counter() - began
        if sum(len(codes) for summary in summaries for _, codes in summary.cells()) != self.topics * self.buckets:
            raise BenchError("the report does not have all buckets")
        return {"time": seconds, "CPU": process_time() - cpu, "reading": read, "page": page.stat().st_size / 1e6}


def _fill(bootstrap_servers: str, topics: int, buckets: int) -> None:
    """The state of an auditor that has seen all of it."""
    days = _days(buckets)
    with Cluster(bootstrap_servers) as cluster:
        find_or_create(cluster, AUDIT_TOPIC, partitions=1, configs={})
        find_or_create(cluster, AUDIT_STATE_TOPIC, partitions=1, configs={"cleanup.policy": "compact"})
        for number in range(topics):
            pairs: list[KeyValue] = [(f"a/topic-{number:04}/{day}/bench".encode(), archive) for day, archive in days.items()]
            cluster.produce(BatchFor(AUDIT_STATE_TOPIC, 0, encode_key_values(pairs, timestamp=FIRST_DAY * DAY_MS, codec=Codec.LZ4)))


def _days(buckets: int) -> dict[int, bytes]:
    """So many buckets of one topic, as the archives of their days."""
    archives: dict[int, Archive] = {}
    for number in range(buckets):
        start = FIRST_DAY * DAY_MS + number * DEFAULT_BUCKET_MS
        archives.setdefault(start // DAY_MS, Archive("")).add(Bucket(start, part=number), _rows("", start))
    return {day: archive.encode() for day, archive in archives.items()}


def _rows(topic: str, start: int) -> list[Row]:
    """One bucket in a thousand has lost something."""
    rows = [Row(topic, start, tier, 1000, 100_000, 1000, 0, 0, 0, 0, 0, 0, None, Verdict.COMPLETE) for tier in TIERS]
    if start // DEFAULT_BUCKET_MS % 1000 == 7:
        lost = (Place("broker", 0, 10, ((40, 50),)),)
        rows[-1] = Row(topic, start, TIERS[-1], 990, 99_000, 1000, 10, 0, 0, 0, 0, 0, None, Verdict.MISSING, lost)
    return rows
