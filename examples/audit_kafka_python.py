"""A program that uses kafka-python takes part in the audit: wrap its producer and consumer, and see `millstream audit report`.

millstream serve &
python examples/audit_kafka_python.py [HOST:PORT [TOPIC]]
"""
# ruff: noqa: INP001, T201 - an example is a script, and prints

import sys

from kafka import KafkaConsumer, KafkaProducer

from millstream.audited.kafka_python import AuditedConsumer, AuditedProducer

COUNT = 100


def main() -> None:
    """Send some orders and bill them."""
    brokers = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
    topic = sys.argv[2] if len(sys.argv) > 2 else "orders"
    with AuditedProducer(KafkaProducer(bootstrap_servers=brokers), audit="shop", brokers=brokers) as producer:
        for number in range(COUNT):
            producer.send(topic, f"order {number}".encode(), key=b"customer")
    orders = KafkaConsumer(topic, bootstrap_servers=brokers, auto_offset_reset="earliest", consumer_timeout_ms=10_000)
    with AuditedConsumer(orders, audit="billing", brokers=brokers) as consumer:
        billed = 0
        for _ in consumer:
            billed += 1
            if billed == COUNT:
                break
    print(f"{billed} orders were billed; now ask: millstream audit report --brokers {brokers} --topic {topic}")


if __name__ == "__main__":
    main()
