"""A producer or consumer that takes part in the audit, in a process of its own, to be killed; it prints a line when it is at work.

python -m tests.crash.audited_process producer BROKERS TOPIC
python -m tests.crash.audited_process consumer|last-consumer COORDINATION TOPIC
python -m tests.crash.audited_process confluent_kafka|kafka_python|aiokafka BROKERS TOPIC       a consumer in its wrapper
python -m tests.crash.audited_process forking BROKERS TOPIC         a tier that is used on both sides of a fork; ends without a close
"""

import asyncio
import itertools
import os
import sys
import time
from collections.abc import Callable

from millstream import Consumer, Producer
from millstream.audit.reports.report import Kind
from millstream.audited.settings import AuditSettings
from millstream.audited.tier import Handled, Tier
from millstream.paper.errors import ZooKeeperUnavailable
from millstream.paper.stream import MessageStream

AT_WORK = 20
"""The line comes after so many messages, or batches of them."""
SOME = 500
SELDOM = AuditSettings("consumer", interval_s=3600)
COMMIT_S = 0.05


def main() -> None:
    role, where, topic = sys.argv[1:]
    ROLES[role](where, topic)


def produce(brokers: str, topic: str) -> None:
    """Send for ever; what was sent before the line is reported, and nothing after it."""
    producer = Producer(brokers, audit=AuditSettings("producer", interval_s=3600))
    for number in itertools.count():
        producer.send(topic, [b"%d" % number] * 10)
        if number == AT_WORK:
            producer.flush()
            # The first message of a topic makes the tier publish all its counts at once.
            producer.send(f"{topic}-other", b"hello")
            say_at_work()
        time.sleep(0.002)


def consume_some(coordination: str, topic: str) -> None:
    """Handle some messages, and then only wait: how fast this process is decides nothing about what is left for the next one."""
    stream = join(coordination, topic)
    for number, _ in enumerate(stream):
        if number == AT_WORK:
            say_at_work()
        if number == SOME:
            time.sleep(3600)


def consume_rest(coordination: str, topic: str) -> None:
    """Read for ever."""
    stream = join(coordination, topic)
    say_at_work()
    for _ in stream:
        pass


def join(coordination: str, topic: str) -> MessageStream:
    """The stream of a consumer whose session ends soon after it is killed; on a busy machine it may end before."""
    consumer = Consumer(
        coordination, "group", audit=AuditSettings("consumer", interval_s=0.3), auto_commit_interval_s=0.2, session_timeout_s=2.0
    )
    for _ in range(20):
        try:
            return consumer.create_message_streams(topic)[0]
        except ZooKeeperUnavailable as error:
            print(error, file=sys.stderr)
    raise SystemExit("the ZooKeeper was away for too long")


def consume_with_confluent_kafka(brokers: str, topic: str) -> None:
    """Read for ever; the wrapper commits, and without a commit nothing is published."""
    from confluent_kafka import OFFSET_STORED, Consumer, TopicPartition

    from millstream.audited.confluent_kafka import AuditedConsumer

    client = Consumer({"bootstrap.servers": brokers, "group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer = AuditedConsumer(client, audit=SELDOM, brokers=brokers, auto_commit_interval_s=COMMIT_S)
    consumer.assign([TopicPartition(topic, 0, OFFSET_STORED)])
    say_at_work()
    while True:
        consumer.consume(10, 0.05)


def consume_with_kafka_python(brokers: str, topic: str) -> None:
    """The same."""
    from kafka import KafkaConsumer, TopicPartition

    from millstream.audited.kafka_python import AuditedConsumer

    client = KafkaConsumer(bootstrap_servers=brokers, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer = AuditedConsumer(client, audit=SELDOM, brokers=brokers, auto_commit_interval_s=COMMIT_S)
    consumer.assign([TopicPartition(topic, 0)])
    say_at_work()
    while True:
        consumer.poll(timeout_ms=50, max_records=10)


def consume_with_aiokafka(brokers: str, topic: str) -> None:
    """The same."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    from millstream.audited.aiokafka import AuditedConsumer

    async def consume() -> None:
        client = AIOKafkaConsumer(bootstrap_servers=brokers, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False)
        consumer = AuditedConsumer(client, audit=SELDOM, brokers=brokers, auto_commit_interval_s=COMMIT_S)
        consumer.assign([TopicPartition(topic, 0)])
        async with consumer:
            say_at_work()
            while True:
                await consumer.getmany(timeout_ms=50, max_records=10)

    asyncio.run(consume())


def fork(brokers: str, topic: str) -> None:
    """The parent counts offset 0, the child 1, the parent 2; neither closes its tier."""
    tier = Tier(SELDOM, Kind.CONSUMER, lambda: brokers)
    tier.handled(topic, [Handled(0, 0, 1, 1)])
    assert tier.reporter.publish(30)
    if child := os.fork():
        os.waitpid(child, 0)
        tier.handled(topic, [Handled(0, 2, 1, 1)])
        say_at_work()
    else:
        tier.handled(topic, [Handled(0, 1, 1, 1)])


ROLES: dict[str, Callable[[str, str], None]] = {
    "producer": produce,
    "consumer": consume_some,
    "last-consumer": consume_rest,
    "confluent_kafka": consume_with_confluent_kafka,
    "kafka_python": consume_with_kafka_python,
    "aiokafka": consume_with_aiokafka,
    "forking": fork,
}


def say_at_work() -> None:
    print("at work", flush=True)


if __name__ == "__main__":
    main()
