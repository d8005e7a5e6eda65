"""A process that copies a topic to another exactly once, until it is killed: consume, transform, produce, offsets in the transaction.

    python -m tests.transactions.copier BROKERS SOURCE TARGET PROTOCOL GROUP ID SEED

One whose group has its own name works alone; others share their group by the `classic` or the `consumer` protocol.

Now and then it changes its mind and aborts. What its producer does not survive (fenced, a commit without an answer, brokers that are away)
it begins anew, as a program would that a supervisor starts again. A line for each of these, and for nothing else.
"""

import logging
import random
import sys
from contextlib import closing
from time import sleep
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import KafkaException as ConsumerError

from millstream import Message, Producer
from millstream.client.errors import ClientError, DeliveryFailed
from millstream.paper.errors import TransactionAborted
from millstream.transaction_errors import ProducerFenced

AT_ONCE: Final = 50
ABORTS: Final = 0.2
TIMEOUT_S: Final = 10.0


class ChangedItsMind(Exception):
    """The transaction is to be aborted."""


def transformed(value: bytes) -> bytes:
    """What becomes of a message."""
    return b"copy of " + value


def main() -> None:
    """Copy for ever."""
    brokers, source, target, protocol, group, name, seed = sys.argv[1:]
    rng = random.Random(seed)
    logging.getLogger("millstream.paper.librdkafka").setLevel(logging.CRITICAL)  # says for ever that a broker is away
    while True:
        try:
            copy(
                Producer(brokers, transactional_id=name, transaction_timeout_s=TIMEOUT_S, connect_timeout_s=30),
                target,
                open_consumer(brokers, source, protocol, group, name),
                rng,
            )
        except (ClientError, ProducerFenced, ConsumerError) as error:
            print(f"begins anew: {type(error).__name__}: {error}", flush=True)
            sleep(0.1)


def open_consumer(brokers: str, source: str, protocol: str, group: str, name: str) -> Consumer:
    """A member of the group."""
    settings = {
        "bootstrap.servers": brokers,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "log_level": 0,
    }
    if protocol == "classic":
        settings["session.timeout.ms"] = 6000
    if group == name:
        # Comes back as the same member, so that nobody waits for the session of the one that was killed.
        settings["group.instance.id"] = name
    consumer = Consumer(settings)
    consumer.subscribe([source])
    return consumer


def copy(producer: Producer, target: str, consumer: Consumer, rng: random.Random) -> None:
    """One life of a producer and a consumer."""
    with closing(consumer):
        while True:
            messages = [message for message in consumer.consume(AT_ONCE, 0.2) if message.error() is None]
            if not messages:
                continue
            try:
                with producer.transaction() as transaction:
                    producer.send(target, [Message(transformed(message.value() or b""), message.key()) for message in messages])
                    transaction.send_offsets(consumer)
                    if rng.random() < ABORTS:
                        producer.flush()
                        raise ChangedItsMind
            except (ChangedItsMind, TransactionAborted, DeliveryFailed):
                rewind(consumer)


def rewind(consumer: Consumer) -> None:
    """Read again what was not committed."""
    for place in consumer.committed(consumer.assignment(), timeout=30):
        consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))


if __name__ == "__main__":
    main()
