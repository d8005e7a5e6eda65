"""A program that uses confluent-kafka takes part in the audit: wrap its producer and consumer, and see `millstream audit report`.

millstream serve &
python examples/audit_confluent_kafka.py [HOST:PORT [TOPIC]]
"""
# ruff: noqa: INP001, T201 - an example is a script, and prints

import sys
from uuid import uuid4

from confluent_kafka import Consumer, Producer

from millstream.audited.confluent_kafka import AuditedConsumer, AuditedProducer

COUNT = 100


def main() -> None:
    """Send some orders and bill them."""
    brokers = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
    topic = sys.argv[2] if len(sys.argv) > 2 else "orders"
    with AuditedProducer(Producer({"bootstrap.servers": brokers}), audit="shop", brokers=brokers) as producer:
        for number in range(COUNT):
            producer.produce(topic, f"order {number}", key="customer")
            producer.poll(0)
    # The wrapper commits, not the client: what is committed has been reported, also after a kill.
    config = {"bootstrap.servers": brokers, "group.id": f"billing-{uuid4()}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with AuditedConsumer(Consumer(config), audit="billing", brokers=brokers, auto_commit_interval_s=5) as consumer:
        consumer.subscribe([topic])
        billed = 0
        while billed < COUNT:
            message = consumer.poll(10)
            if message is None:
                raise SystemExit(f"nothing more came from {topic} after {billed} orders")
            billed += message.error() is None
    print(f"{billed} orders were billed; now ask: millstream audit report --brokers {brokers} --topic {topic}")


if __name__ == "__main__":
    main()
