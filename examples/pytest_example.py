"""Testing your own code against a real broker: Millstream's pytest plugin starts one inside the test run.

pytest examples/pytest_example.py
"""
# ruff: noqa: INP001, D103 - an example stands alone, and the name of a test is its claim

from confluent_kafka import Consumer, Producer, TopicPartition

from millstream.testing import Broker


def record_click(producer: Producer, user: str, *, page: str) -> None:
    """The code under test: one record per click, keyed by the user."""
    producer.produce("clicks", page.encode(), key=user.encode())


def test_a_click_is_recorded_under_its_user(millstream_broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": millstream_broker.bootstrap_servers})
    record_click(producer, "ada", page="/engine")
    assert producer.flush(10) == 0

    consumer = Consumer({"bootstrap.servers": millstream_broker.bootstrap_servers, "group.id": "test"})
    consumer.assign([TopicPartition("clicks", 0, 0)])
    (click,) = consumer.consume(1, timeout=10)
    consumer.close()

    assert (click.key(), click.value()) == (b"ada", b"/engine")
