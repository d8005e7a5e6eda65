"""A producer or consumer that takes part in the audit, in a process of its own, to be killed; it prints a line when it is at work.

python -m tests.crash.audited_process producer BROKERS TOPIC
python -m tests.crash.audited_process consumer COORDINATION TOPIC
"""

import itertools
import sys
import time

from millstream import Consumer, Producer
from millstream.audited.settings import AuditSettings

INTERVAL_S = 0.3


def main() -> None:
    role, where, topic = sys.argv[1:]
    settings = AuditSettings(role, interval_s=INTERVAL_S)
    if role == "producer":
        producer = Producer(where, audit=settings, options={"statistics.interval.ms": 200})
        for number in itertools.count():
            producer.send(topic, [b"%d" % number] * 10)
            _say_at(number, 20)
            time.sleep(0.002)
    consumer = Consumer(where, "group", audit=settings, auto_commit_interval_s=0.2, session_timeout_s=2.0)
    [stream] = consumer.create_message_streams(topic)
    for number, _ in enumerate(stream):
        _say_at(number, 20)
        time.sleep(0.001)


def _say_at(number: int, moment: int) -> None:
    if number == moment:
        print("at work", flush=True)


if __name__ == "__main__":
    main()
