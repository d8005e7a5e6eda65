"""Producers and consumers of the audit that are killed: what was not reported is unknown or read again, and never shown as loss."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from millstream import Producer
from millstream.audit.reports.report import Kind
from millstream.audit.verdict import Row, Verdict
from tests.audit_reports import read_reports, read_rows
from tests.brokers import IS_KAFKA, MillstreamBroker
from tests.topics import create_topic, produce_values, read_all
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="the consumer's groups need a ZooKeeper, which Apache Kafka 4 does not have")

PROJECT = Path(__file__).parents[2]

StartProcess = Callable[[str, str, str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start_process() -> Iterator[StartProcess]:
    started = []

    def start(role: str, where: str, topic: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "tests.crash.audited_process", role, where, topic]
        process = subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"at work\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MillstreamBroker]:
    made = MillstreamBroker(tmp_path_factory.mktemp("broker"), {})
    made.start()
    yield made
    made.kill()


def counted(broker: MillstreamBroker, topic: str, kind: Kind) -> int:
    reports = [report for _, report in read_reports(broker.bootstrap_servers, topic) if report.origin.kind is kind]
    return sum(count.count for report in reports for count in report.counts)


def rows_of(broker: MillstreamBroker, topic: str, kind: Kind) -> list[Row]:
    """What is said of a tier when the broker's log is counted as well."""
    return [row for row in read_rows(broker.bootstrap_servers, topic, with_log=True) if row.tier.kind is kind]


def test_what_a_killed_producer_had_not_reported_is_unknown(broker: MillstreamBroker, start_process: StartProcess) -> None:
    topic = create_topic(broker)
    process = start_process("producer", broker.bootstrap_servers, topic)
    wait_until(lambda: counted(broker, topic, Kind.PRODUCER) > 0, "a report")
    wait_until(lambda: len(read_all(broker, topic)) > counted(broker, topic, Kind.PRODUCER), "what is not reported")
    process.kill()
    process.wait(20)
    in_log = rows_of(broker, topic, Kind.BROKER)
    assert sum(row.missing for row in in_log) == 0
    assert sum(row.surplus for row in in_log) == len(read_all(broker, topic)) - counted(broker, topic, Kind.PRODUCER)
    assert {row.verdict for row in in_log} <= {Verdict.UNKNOWN, Verdict.COMPLETE}
    assert Verdict.UNKNOWN in {row.verdict for row in rows_of(broker, topic, Kind.PRODUCER)}


def test_what_a_killed_consumer_had_handled_counts_once_and_its_repeats_apart(
    broker: MillstreamBroker, start_process: StartProcess
) -> None:
    topic = create_topic(broker, partitions=2)
    total = 2000
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(total // 100):
            producer.send(topic, [b"%d" % number] * 100)
    for _ in range(2):
        before = counted(broker, topic, Kind.CONSUMER)
        process = start_process("consumer", broker.coordination, topic)
        wait_until(lambda: counted(broker, topic, Kind.CONSUMER) > before, "a report")  # noqa: B023 -- it is called within the round
        process.kill()
        process.wait(20)
    start_process("last-consumer", broker.coordination, topic)

    def handled() -> int:
        return sum(row.count for row in rows_of(broker, topic, Kind.CONSUMER))

    wait_until(lambda: handled() >= total, "everything is handled", deadline_s=60)
    rows = rows_of(broker, topic, Kind.CONSUMER)
    assert {row.verdict for row in rows} == {Verdict.COMPLETE}
    assert sum(row.count for row in rows) == total
    assert sum(row.missing + row.surplus for row in rows) == 0
    assert sum(row.repeated for row in rows) == counted(broker, topic, Kind.CONSUMER) - total


@pytest.mark.parametrize("client", ["confluent_kafka", "kafka_python", "aiokafka"])
def test_what_a_killed_wrapper_had_committed_was_published_before(
    broker: MillstreamBroker, start_process: StartProcess, client: str
) -> None:
    topic = create_topic(broker)
    total = 3000
    produce_values(broker, topic, [b"%d" % number for number in range(total)])
    process = start_process(client, broker.bootstrap_servers, topic)
    wait_until(lambda: committed(broker, topic) > 0, "a commit")
    process.kill()
    process.wait(20)
    assert committed(broker, topic) <= handled_up_to(broker, topic)
    start_process(client, broker.bootstrap_servers, topic)
    wait_until(lambda: handled_up_to(broker, topic) == total, "everything is handled", deadline_s=60)
    rows = rows_of(broker, topic, Kind.CONSUMER)
    assert sum(row.count for row in rows) == total
    assert {(row.missing, row.surplus) for row in rows} == {(0, 0)}


def committed(broker: MillstreamBroker, topic: str) -> int:
    """The committed offset of partition 0, by the group of the topic's name."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": topic})
    try:
        [found] = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=20)
        return int(found.offset)
    finally:
        consumer.close()


def handled_up_to(broker: MillstreamBroker, topic: str) -> int:
    """Where the offsets end that were reported as handled."""
    reports = [report for _, report in read_reports(broker.bootstrap_servers, topic)]
    return max((count.offsets.end for report in reports for count in report.counts if count.offsets), default=0)


def test_both_sides_of_a_fork_count_for_themselves_and_report_at_their_end(broker: MillstreamBroker, start_process: StartProcess) -> None:
    topic = create_topic(broker)
    assert start_process("forking", broker.bootstrap_servers, topic).wait(60) == 0
    reports = [report for _, report in read_reports(broker.bootstrap_servers, topic)]
    assert list({report.reporter: report.is_last for report in reports}.values()) == [True, True]
    offsets = [count.offsets for report in reports for count in report.counts]
    assert sorted(one.start for one in offsets if one) == [0, 1, 2]
    assert sum(map(len, filter(None, offsets))) == 3
