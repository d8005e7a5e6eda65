"""Clients that count for the audit, on a real broker: our producer, and confluent-kafka, kafka-python and aiokafka in their wrappers."""

import asyncio
import logging
import runpy
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from millstream import Message, MessageSet, Producer
from millstream.audit.reports.report import Kind
from millstream.audit.verdict import Verdict
from millstream.audited import aiokafka, kafka_python
from millstream.audited import confluent_kafka as audited_confluent
from millstream.audited.settings import AuditSettings
from millstream.client.errors import DeliveryFailed
from millstream.errors import UsageError
from tests.audit_reports import read_reports, read_rows, totals
from tests.batches import encode_batch
from tests.brokers import Broker
from tests.topics import create_topic, fresh_name, produce, produce_values, read_all
from tests.waiting import wait_until

COUNT = 500
EXAMPLES = Path(__file__).parents[2] / "examples"
HOUR_MS = 3_600_000


def quick(tier: str) -> AuditSettings:
    return AuditSettings(tier, application="test", host="here", datacentre="west", interval_s=0.2)


# --- our producer


def test_a_producer_reports_what_it_sent_by_the_time_of_each_message(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap_servers, audit=quick("shop")) as producer:
        producer.send(topic, [b"12345"] * COUNT)
        producer.send(topic, MessageSet([Message(b"12", key="1", timestamp=HOUR_MS + 1), Message("3"), "4", None]))
        producer.send(topic, b"single")
        producer.send(topic, (b"%d" % number for number in range(3)))
    rows = read_rows(broker.bootstrap_servers, topic)
    assert sum(row.count for row in rows) == COUNT + 8 == len(read_all(broker, topic))
    early = [row for row in rows if row.bucket == HOUR_MS]
    assert [(row.count, row.bytes) for row in early] == [(1, 3)]
    assert sum(row.bytes for row in rows) == COUNT * 5 + 3 + 1 + 1 + 6 + 3
    [first, *_, last] = [report for _, report in read_reports(broker.bootstrap_servers, topic)]
    assert (first.sequence, first.is_last) == (0, False)
    assert last.is_last
    assert last.origin[:5] == ("shop", Kind.PRODUCER, "test", "here", "west")
    assert last.origin.cluster


def test_a_message_of_the_time_zero_is_counted_where_librdkafka_puts_it(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap_servers, audit=quick("shop")) as producer:
        producer.send(topic, [Message(b"first", timestamp=0), Message(b"second", timestamp=1)])
    rows = read_rows(broker.bootstrap_servers, topic, with_log=True)
    assert [row.verdict for row in rows] == [Verdict.COMPLETE] * 4
    assert {row.count for row in rows} == {1}


def test_the_buckets_of_a_producer_are_those_of_the_log(broker: Broker, topic: str) -> None:
    """With buckets of a second a run of three seconds has several ends of buckets in it."""
    settings = AuditSettings("shop", interval_s=0.5, bucket_s=1)
    stop = threading.Event()
    threading.Timer(3, stop.set).start()
    with Producer(broker.bootstrap_servers, audit=settings) as producer:
        while not stop.is_set():
            producer.send(topic, [b"x"] * 20)
            stop.wait(0.001)
    in_log: dict[int, int] = {}
    for record in read_all(broker, topic):
        start = record.timestamp // 1000 * 1000
        in_log[start] = in_log.get(start, 0) + 1
    counted: dict[int, int] = {}
    for _, report in read_reports(broker.bootstrap_servers, topic):
        for count in report.counts:
            counted[count.bucket] = counted.get(count.bucket, 0) + count.count
    assert len(in_log) > 2
    assert counted == in_log


@pytest.mark.parametrize("timestamp", [None, HOUR_MS])
def test_what_was_not_written_is_not_counted(broker: Broker, timestamp: int | None) -> None:
    name = create_topic(broker, configs={"max.message.bytes": 1000})
    producer = Producer(broker.bootstrap_servers, audit=quick("shop"))
    producer.send(name, [b"good"] * 10)
    producer.flush()
    producer.send(name, [Message(b"x" * 5000, timestamp=timestamp)])
    with pytest.raises(DeliveryFailed):
        producer.close()
    [row] = read_rows(broker.bootstrap_servers, name)
    assert (row.count, row.bytes, row.verdict) == (10, 40, Verdict.COMPLETE)


def test_ten_messages_that_were_sent_twice_are_named_with_their_partition(broker: Broker) -> None:
    topic = create_topic(broker, partitions=3)
    keys = [f"{number}" for number in range(60)]
    with Producer(broker.bootstrap_servers, audit=quick("shop"), options={"queue.buffering.max.messages": 150}) as producer:
        producer.send(topic, [b"payload"] * 100)
        producer.send(topic, [Message(b"keyed", key) for key in keys])
        producer.send(topic, [Message(b"stamped", key, timestamp=HOUR_MS) for key in keys])
        producer.send(topic, [Message(b"mixed", headers={"a": b"b"}), b"mixed", Message(None, "60"), "mixed"])
    rows = read_rows(broker.bootstrap_servers, topic, with_log=True)
    assert {(row.missing, row.surplus, row.verdict) for row in rows} == {(0, 0, Verdict.COMPLETE)}
    with broker.connect() as connection:
        assert produce(connection, topic, encode_batch([b"again"] * 10, timestamp=HOUR_MS), partition=1).error_code == 0
    [row] = [row for row in read_rows(broker.bootstrap_servers, topic, with_log=True) if row.verdict is not Verdict.COMPLETE]
    assert (row.tier.kind, row.bucket, row.verdict) == (Kind.BROKER, HOUR_MS, Verdict.SURPLUS)
    [place] = row.surpluses
    assert (place.partition, place.count) == (1, 10)


def test_many_threads_share_an_audited_producer(broker: Broker) -> None:
    topic = create_topic(broker, partitions=3)
    with Producer(broker.bootstrap_servers, audit=quick("shop")) as producer:

        def send(thread: int) -> None:
            for number in range(50):
                producer.send(topic, b"one")
                producer.send(topic, [b"payload"] * 7)
                producer.send(topic, [Message(b"keyed", f"{thread}-{number}-{one}") for one in range(5)])
                producer.send(topic, Message(b"stamped", f"{number}", timestamp=HOUR_MS * (1 + number % 3)))

        threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = read_rows(broker.bootstrap_servers, topic, with_log=True)
    assert {row.verdict for row in rows} == {Verdict.COMPLETE}
    assert sum(row.count for row in rows if row.tier.name == "shop") == 8 * 50 * 14


def test_an_audited_producer_puts_keys_where_librdkafka_does(broker: Broker) -> None:
    topics = [create_topic(broker, partitions=5) for _ in range(2)]
    messages = [Message(b"", f"key-{number}") for number in range(100)]
    with Producer(broker.bootstrap_servers) as plain, Producer(broker.bootstrap_servers, audit=quick("shop")) as audited:
        plain.send(topics[0], messages)
        audited.send(topics[1], messages)
    keys = [[[record.key for record in read_all(broker, topic, partition=number)] for number in range(5)] for topic in topics]
    assert keys[0] == keys[1]
    assert sum(map(len, keys[0])) == 100


def test_a_full_queue_is_waited_for_and_everything_counts_once(broker: Broker, topic: str) -> None:
    options = {"queue.buffering.max.messages": 100, "linger.ms": 5}
    with Producer(broker.bootstrap_servers, audit=quick("shop"), options=options) as producer:
        producer.send(topic, [b"%d" % number for number in range(3000)])
    assert totals(broker.bootstrap_servers, topic) == {"shop": (3000, 0)}


def test_a_producer_that_is_never_idle_reports_while_it_runs(broker: Broker, topic: str) -> None:
    stop = threading.Event()

    def has_counts() -> bool:
        return sum(count.count for _, report in read_reports(broker.bootstrap_servers, topic) for count in report.counts) > 10_000

    with Producer(broker.bootstrap_servers, audit=quick("shop"), options={"linger.ms": 50, "statistics.interval.ms": 200}) as producer:

        def send() -> None:
            while not stop.is_set():
                producer.send(topic, [b"x" * 10] * 100)
                stop.wait(0.001)

        sender = threading.Thread(target=send)
        sender.start()
        wait_until(has_counts, "reports of a busy producer")
        stop.set()
        sender.join()
    assert totals(broker.bootstrap_servers, topic)["shop"][0] == len(read_all(broker, topic))


def test_a_producer_that_is_closed_has_reported_what_it_sent_and_takes_no_more(broker: Broker, topic: str) -> None:
    producer = Producer(broker.bootstrap_servers, audit=quick("shop"))
    producer.send(topic, b"one")
    producer.close()
    with pytest.raises(UsageError, match="this producer is closed"):
        producer.send(topic, b"two")
    producer.close()
    rows = read_rows(broker.bootstrap_servers, topic)
    assert [(row.count, row.verdict) for row in rows] == [(1, Verdict.COMPLETE)]


# --- the others


def test_confluent_kafka_in_its_wrappers(broker: Broker, topic: str) -> None:
    brokers = broker.bootstrap_servers
    delivered = []
    with audited_confluent.AuditedProducer(
        confluent_kafka.Producer({"bootstrap.servers": brokers}), audit=quick("sender"), brokers=brokers
    ) as producer:
        for number in range(COUNT):
            producer.produce(topic, b"%03d" % number, b"key", on_delivery=lambda error, message: delivered.append(message.offset()))
            producer.poll(0)
    config = {"bootstrap.servers": brokers, "group.id": fresh_name("group"), "auto.offset.reset": "earliest"}
    with audited_confluent.AuditedConsumer(confluent_kafka.Consumer(config), audit=quick("reader"), brokers=brokers) as consumer:
        consumer.subscribe([topic])
        read = 0
        while read < COUNT:
            read += len([message for message in consumer.consume(100, 1) if message.error() is None])
    assert len(delivered) == COUNT
    check_both(brokers, topic, bytes_each=6)


def test_kafka_python_in_its_wrappers(broker: Broker, topic: str) -> None:
    brokers = broker.bootstrap_servers
    with kafka_python.AuditedProducer(kafka.KafkaProducer(bootstrap_servers=brokers), audit=quick("sender"), brokers=brokers) as producer:
        for number in range(COUNT):
            producer.send(topic, b"%03d" % number, b"key")
    client: Any = kafka.KafkaConsumer(topic, bootstrap_servers=brokers, auto_offset_reset="earliest", enable_auto_commit=False)
    with kafka_python.AuditedConsumer(client, audit=quick("reader"), brokers=brokers) as consumer:
        for read, _ in enumerate(consumer, 1):
            if read == COUNT:
                break
    check_both(brokers, topic, bytes_each=6)


def test_what_is_committed_was_published_before(broker: Broker, topic: str) -> None:
    brokers = broker.bootstrap_servers
    produce_values(broker, topic, [b"%d" % number for number in range(10)])
    config = {"bootstrap.servers": brokers, "group.id": fresh_name("group"), "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = audited_confluent.AuditedConsumer(
        confluent_kafka.Consumer(config), audit=AuditSettings("reader", interval_s=600), brokers=brokers
    )
    consumer.subscribe([topic])
    while consumer.poll(10).offset() < 9:
        pass
    consumer.commit(asynchronous=False)
    assert totals(brokers, topic) == {"reader": (10, 0)}
    consumer.close()


@pytest.mark.parametrize("client", ["confluent_kafka", "kafka_python"])
def test_a_wrapper_that_commits_has_committed_everything_when_it_is_closed(broker: Broker, topic: str, client: str) -> None:
    brokers, group = broker.bootstrap_servers, fresh_name("group")
    produce_values(broker, topic, [b"%d" % number for number in range(10)])
    consumer: Any
    if client == "confluent_kafka":
        plain = confluent_kafka.Consumer(
            {"bootstrap.servers": brokers, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        consumer = audited_confluent.AuditedConsumer(plain, audit="reader", brokers=brokers, auto_commit_interval_s=600)
        revoked: list[Any] = []
        consumer.subscribe([topic], on_revoke=lambda _consumer, partitions: revoked.extend(partitions))
        while (message := consumer.poll(10)).offset() < 9:
            assert message.error() is None
        consumer.close()
        assert [one.partition for one in revoked] == [0]
    else:
        made = kafka.KafkaConsumer(topic, bootstrap_servers=brokers, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
        consumer = kafka_python.AuditedConsumer(made, audit="reader", brokers=brokers, auto_commit_interval_s=600)
        assert [next(consumer).offset for _ in range(10)] == list(range(10))
        consumer.close()
    asking = confluent_kafka.Consumer({"bootstrap.servers": brokers, "group.id": group})
    [found] = asking.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=20)
    asking.close()
    assert found.offset == 10
    assert totals(brokers, topic) == {"reader": (10, 0)}


async def test_only_one_of_wrapper_and_client_commits(broker: Broker, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    brokers = broker.bootstrap_servers
    made = kafka.KafkaConsumer(topic, bootstrap_servers=brokers, group_id="group")
    asynchronous = AIOKafkaConsumer(topic, bootstrap_servers=brokers, group_id="group")
    for wrapper, client in ((kafka_python.AuditedConsumer, made), (aiokafka.AuditedConsumer, asynchronous)):
        with pytest.raises(UsageError, match="either the client commits or its wrapper"):
            wrapper(client, audit="reader", brokers=brokers, auto_commit_interval_s=5)
        with caplog.at_level(logging.WARNING, "millstream.audited"):
            wrapper(client, audit="reader", brokers=brokers)
        assert "enable_auto_commit=False" in caplog.messages.pop()
    made.close()
    await asynchronous.stop()
    alone = kafka.KafkaConsumer(topic, bootstrap_servers=brokers, group_id=None)
    with pytest.raises(UsageError, match="for consumers with a group"):
        kafka_python.AuditedConsumer(alone, audit="reader", brokers=brokers, auto_commit_interval_s=5)
    alone.close()
    with pytest.raises(UsageError, match="auto_commit_interval_s=0"):
        audited_confluent.AuditedConsumer(None, audit="reader", brokers=brokers, auto_commit_interval_s=0)


async def test_aiokafka_in_its_wrappers(broker: Broker, topic: str) -> None:
    brokers = broker.bootstrap_servers
    async with aiokafka.AuditedProducer(AIOKafkaProducer(bootstrap_servers=brokers), audit=quick("sender"), brokers=brokers) as producer:
        for number in range(COUNT - 10):
            sent = await producer.send(topic, b"%03d" % number, b"key")
        batch = producer.create_batch()
        for _ in range(10):
            batch.append(key=b"key", value=b"abc", timestamp=None)
        batch_sent = await producer.send_batch(batch, topic, partition=0)
    assert (await sent).offset == COUNT - 11
    assert (await batch_sent).offset == COUNT - 10
    client = AIOKafkaConsumer(topic, bootstrap_servers=brokers, auto_offset_reset="earliest")
    async with aiokafka.AuditedConsumer(client, audit=quick("reader"), brokers=brokers) as consumer:
        read = 0
        async for _ in consumer:
            read += 1
            if read == COUNT:
                break
    await asyncio.to_thread(check_both, brokers, topic)


def check_both(brokers: str, topic: str, *, bytes_each: int | None = None) -> None:
    """Producer and consumer have the same, and neither leaves a doubt."""
    rows = read_rows(brokers, topic)
    assert {row.verdict for row in rows} == {Verdict.COMPLETE}
    for tier in ("sender", "reader"):
        own = [row for row in rows if row.tier.name == tier]
        assert sum(row.count for row in own) == COUNT
        if bytes_each is not None:
            assert sum(row.bytes for row in own) == COUNT * bytes_each


@pytest.mark.parametrize("client", ["confluent_kafka", "kafka_python", "aiokafka"])
def test_the_examples_are_complete(
    client: str, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"audit_{client}.py"
    monkeypatch.setattr(sys, "argv", [name, broker.bootstrap_servers, topic])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert "100 orders were billed" in capsys.readouterr().out
    rows = read_rows(broker.bootstrap_servers, topic)
    assert {(row.tier.name, row.verdict) for row in rows} == {("shop", Verdict.COMPLETE), ("billing", Verdict.COMPLETE)}
    assert totals(broker.bootstrap_servers, topic) == {"shop": (100, 0), "billing": (100, 0)}


# --- bad input


@pytest.mark.parametrize("name", ["", "two words", "-dash", "a/b", "ü", "x" * 101])
def test_a_name_that_no_tier_can_have_is_refused(broker: Broker, name: str) -> None:
    with pytest.raises(UsageError, match="no name of a tier"):
        Producer(broker.bootstrap_servers, audit=name)


def test_an_audit_that_cannot_be_reached_disturbs_nobody(broker: Broker, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nowhere = f"127.0.0.1:{listener.getsockname()[1]}"
    client = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer = audited_confluent.AuditedProducer(client, audit=quick("sender"), brokers=nowhere)
    with caplog.at_level(logging.WARNING, "millstream.audited"):
        producer.produce(topic, b"arrives")
        assert producer.flush(30) == 0
        wait_until(lambda: caplog.records, "a line about the audit")
        producer.close()
    assert len(read_all(broker, topic)) == 1
    [first, last] = caplog.messages
    assert "cannot be published" in first
    assert nowhere in first
    assert "the last counts of 'sender' could not be published" in last


# --- transactions


def send_in_transactions_kafka_python(brokers: str, topic: str) -> None:
    client = kafka.KafkaProducer(bootstrap_servers=brokers, transactional_id=fresh_name())
    with kafka_python.AuditedProducer(client, audit=quick("shop"), brokers=brokers) as producer:
        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for _ in range(5):
                producer.send(topic, b"message").get(30)
            end()


async def send_in_transactions_aiokafka(brokers: str, topic: str) -> None:
    client = AIOKafkaProducer(bootstrap_servers=brokers, transactional_id=fresh_name())
    async with aiokafka.AuditedProducer(client, audit=quick("shop"), brokers=brokers) as producer:
        async with producer.transaction():
            for _ in range(5):
                await producer.send_and_wait(topic, b"message")
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"message")
        await producer.abort_transaction()


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_messages_of_a_transaction_count_when_it_is_committed(broker: Broker, topic: str, client: str) -> None:
    if client == "aiokafka":
        asyncio.run(send_in_transactions_aiokafka(broker.bootstrap_servers, topic))
    else:
        send_in_transactions_kafka_python(broker.bootstrap_servers, topic)
    assert totals(broker.bootstrap_servers, topic) == {"shop": (5, 0)}
