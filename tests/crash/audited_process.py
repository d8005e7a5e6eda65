"""A producer or consumer that takes part in the audit, in a process of its own, to be killed; it prints a line when it is at work.

python -m tests.crash.audited_process producer BROKERS TOPIC
python -m tests.crash.audited_process consumer COORDINATION TOPIC
"""

import itertools
import sys
import time

from millstream import Consumer, Producer
from millstream.audited.settings import AuditSettings

AT_WORK = 20
"""The line comes after so many messages, or batches of them."""


def main() -> None:
    role, where, topic = sys.argv[1:]
    (produce if role == "producer" else consume)(where, topic)


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


def consume(coordination: str, topic: str) -> None:
    """Read for ever."""
    settings = AuditSettings("consumer", interval_s=0.3)
    consumer = Consumer(coordination, "group", audit=settings, auto_commit_interval_s=0.2, session_timeout_s=2.0)
    [stream] = consumer.create_message_streams(topic)
    for number, _ in enumerate(stream):
        if number == AT_WORK:
            say_at_work()
        time.sleep(0.001)


def say_at_work() -> None:
    print("at work", flush=True)


if __name__ == "__main__":
    main()
