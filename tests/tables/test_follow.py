"""A scan that follows a topic hands out what comes, when it comes, for as long as it is asked."""

from collections.abc import Iterator
from typing import Any

import pytest

import millstream
from millstream.arrow.data_loss import DataLoss
from tests.brokers import IS_KAFKA, Broker, StartBroker
from tests.spark.admin import add_partitions, delete_records
from tests.spark.topic_content import write_numbers
from tests.topics import create_topic, delete_topic


def follow(broker: Broker, topic: str, **arguments: Any) -> Iterator[int]:
    """The numbers of a topic, one by one."""
    scan = millstream.scan(topic, brokers=broker.bootstrap_servers, follow=True, value_format="string", columns=["value"], **arguments)
    for batch in scan.to_reader():
        yield from map(int, batch.column("value").to_pylist())


def take(numbers: Iterator[int], count: int) -> list[int]:
    return sorted(next(numbers) for _ in range(count))


def test_rows_come_as_they_are_written_in_old_and_new_partitions(broker: Broker) -> None:
    topic = create_topic(broker, partitions=2)
    write_numbers(broker, topic, range(5), partition=0)
    numbers = follow(broker, topic)
    assert take(numbers, 5) == list(range(5))
    for start in range(10, 40, 10):
        write_numbers(broker, topic, range(start, start + 5), partition=start // 10 % 2)
        assert take(numbers, 5) == list(range(start, start + 5))
    add_partitions(broker, topic, 3)
    write_numbers(broker, topic, range(100, 105), partition=2)
    assert take(numbers, 5) == list(range(100, 105))


def test_a_broker_that_restarts_is_waited_for(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker)
    write_numbers(broker, topic, range(3))
    numbers = follow(broker, topic)
    assert take(numbers, 3) == [0, 1, 2]
    broker.restart()
    write_numbers(broker, topic, range(3, 6))
    assert take(numbers, 3) == [3, 4, 5]
    if not IS_KAFKA:
        broker.kill()


def test_what_is_deleted_before_it_is_read_is_lost_data(broker: Broker, topic: str) -> None:
    write_numbers(broker, topic, range(3))
    numbers, patient = follow(broker, topic), follow(broker, topic, fail_on_data_loss=False)
    assert take(numbers, 3) == take(patient, 3) == [0, 1, 2]
    write_numbers(broker, topic, range(3, 9))
    delete_records(broker, topic, before=7)
    with pytest.raises(DataLoss, match=r"offset 3 of .* is gone: the partition now has the offsets from 7 up to 9"):
        next(numbers)
    assert take(patient, 2) == [7, 8]


def test_a_topic_that_is_deleted_ends_it(broker: Broker, topic: str) -> None:
    write_numbers(broker, topic, range(3))
    numbers, patient = follow(broker, topic), follow(broker, topic, fail_on_data_loss=False)
    assert take(numbers, 3) == take(patient, 3) == [0, 1, 2]
    delete_topic(broker, topic)
    with pytest.raises(DataLoss, match=f"the topic '{topic}' is gone"):
        next(numbers)
    assert list(patient) == []
