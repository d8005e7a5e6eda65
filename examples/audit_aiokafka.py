"""A program that uses aiokafka takes part in the audit: wrap its producer and consumer, and see `millstream audit report`.

millstream serve &
python examples/audit_aiokafka.py [HOST:PORT [TOPIC]]
"""
# ruff: noqa: INP001, T201 - an example is a script, and prints

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from millstream.audited.aiokafka import AuditedConsumer, AuditedProducer

COUNT = 100


async def main() -> None:
    """Send some orders and bill them."""
    brokers = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
    topic = sys.argv[2] if len(sys.argv) > 2 else "orders"
    async with AuditedProducer(AIOKafkaProducer(bootstrap_servers=brokers), audit="shop", brokers=brokers) as producer:
        for number in range(COUNT):
            await producer.send_and_wait(topic, f"order {number}".encode(), key=b"customer")
    orders = AIOKafkaConsumer(topic, bootstrap_servers=brokers, auto_offset_reset="earliest")
    async with AuditedConsumer(orders, audit="billing", brokers=brokers) as consumer:
        billed = 0
        async for _ in consumer:
            billed += 1
            if billed == COUNT:
                break
    print(f"{billed} orders were billed; now ask: millstream audit report --brokers {brokers} --topic {topic}")


if __name__ == "__main__":
    asyncio.run(main())
