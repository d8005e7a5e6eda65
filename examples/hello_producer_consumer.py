"""The smallest round trip: send three greetings, read them back. Any Kafka client would do; this one is confluent-kafka.

millstream serve &
python examples/hello_producer_consumer.py [HOST:PORT]
"""
# ruff: noqa: INP001, T201 - an example is a script, and prints

import sys

from confluent_kafka import Consumer, Producer, TopicPartition

TOPIC = "greetings"
GREETINGS = ("hello", "bonjour", "guten Tag")


def send_greetings(brokers: str) -> None:
    """Send every greeting; the topic is created by the first one."""
    producer = Producer({"bootstrap.servers": brokers})
    for greeting in GREETINGS:
        producer.produce(TOPIC, greeting.encode(), key=b"greeting")
    waiting = producer.flush(10)
    if waiting:
        raise SystemExit(f"{waiting} greetings were not delivered to {brokers}")


def read_greetings(brokers: str) -> list[str]:
    """Read partition 0 from its beginning: a consumer pulls, and may read the same records as often as it likes."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "hello", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    try:
        messages = consumer.consume(len(GREETINGS), timeout=10)
        return [value.decode() for message in messages if (value := message.value()) is not None]
    finally:
        consumer.close()


def main() -> None:
    """Say hello through the broker given on the command line."""
    brokers = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
    send_greetings(brokers)
    for greeting in read_greetings(brokers):
        print(greeting)


if __name__ == "__main__":
    main()
