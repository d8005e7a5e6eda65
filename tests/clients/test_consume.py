"""Consumers that assign their partitions start where they like, go back, look up times, and wait for what is to come."""

import pytest

from tests.batches import encode_batch
from tests.brokers import Broker
from tests.clients.client import Client, Message, Refused
from tests.topics import create_topic, produce, produce_values

VALUES: list[bytes | None] = [b"%d" % number for number in range(100)]


def test_reading_from_the_earliest_offset_gives_everything(broker: Broker, topic: str, client: Client) -> None:
    produce_values(broker, topic, VALUES, batch_size=7)
    with client.reader(broker, topic, start="earliest") as reader:
        assert [message.value for message in reader.read(100)] == VALUES


def test_reading_from_the_latest_offset_gives_only_what_comes_after(broker: Broker, topic: str, client: Client) -> None:
    produce_values(broker, topic, VALUES)
    with client.reader(broker, topic, start="latest") as reader:
        reader.settle()
        produce_values(broker, topic, [b"new"])
        assert [(message.offset, message.value) for message in reader.read(1)] == [(100, b"new")]


@pytest.mark.parametrize("offset", [0, 1, 49, 50, 51, 99])
def test_reading_starts_at_any_offset_even_in_the_middle_of_a_batch(broker: Broker, topic: str, client: Client, offset: int) -> None:
    produce_values(broker, topic, VALUES, batch_size=50)
    with client.reader(broker, topic, start=offset) as reader:
        message = reader.read(1)[0]
    assert (message.offset, message.value) == (offset, VALUES[offset])


def test_consumer_rewinds_and_skips(broker: Broker, topic: str, client: Client) -> None:
    produce_values(broker, topic, VALUES, batch_size=10)
    with client.reader(broker, topic) as reader:
        assert reader.read(100)[-1].offset == 99
        reader.seek(3)
        assert [message.offset for message in reader.read(5)] == [3, 4, 5, 6, 7]
        reader.seek(98)
        assert [message.offset for message in reader.read(2)] == [98, 99]
        reader.seek(0)
        assert [message.value for message in reader.read(100)] == VALUES


def test_waiting_consumer_gets_a_message_produced_later(broker: Broker, topic: str, client: Client) -> None:
    with client.reader(broker, topic) as reader, client.writer(broker) as writer:
        reader.settle()
        for number in range(3):
            writer.write(topic, [Message(b"%d" % number)])
            assert reader.read(1)[0].value == b"%d" % number


def test_batches_bigger_than_the_fetch_size_still_get_through(broker: Broker, topic: str, client: Client) -> None:
    values: list[bytes | None] = [b"%d" % number * 2000 for number in range(10)]
    produce_values(broker, topic, values, batch_size=5)
    with client.reader(broker, topic, max_bytes=1000) as reader:
        assert [message.value for message in reader.read(10)] == values


def test_reading_crosses_segments(broker: Broker, client: Client) -> None:
    topic = create_topic(broker, configs={"segment.bytes": 1 << 20})
    values: list[bytes | None] = [b"%06d" % number * 10_000 for number in range(60)]
    produce_values(broker, topic, values, batch_size=4)
    assert len(list(broker.partition_directory(topic).glob("*.log"))) >= 3
    with client.reader(broker, topic) as reader:
        assert [message.value for message in reader.read(60)] == values
        reader.seek(30)
        assert [message.offset for message in reader.read(20)] == list(range(30, 50))


def test_offset_for_a_time_is_the_first_message_not_older(broker: Broker, topic: str, client: Client) -> None:
    first = 1_700_000_000_000
    with broker.connect() as connection:
        for start in range(0, 50, 10):
            batch = encode_batch([b"x"] * 10, timestamp=first + start * 1000, timestamp_step=1000)
            assert produce(connection, topic, batch).error_code == 0
    assert client.offset_for_time(broker, topic, 0) == 0
    assert client.offset_for_time(broker, topic, first) == 0
    assert client.offset_for_time(broker, topic, first + 1) == 1
    assert client.offset_for_time(broker, topic, first + 25_000) == 25
    assert client.offset_for_time(broker, topic, first + 48_001) == 49


def test_ends_of_a_partition(broker: Broker, topic: str, client: Client) -> None:
    assert client.ends(broker, topic) == (0, 0)
    produce_values(broker, topic, VALUES)
    assert client.ends(broker, topic) == (0, 100)


def test_offset_out_of_range_is_an_error_for_a_consumer_without_reset(broker: Broker, topic: str, client: Client) -> None:
    produce_values(broker, topic, VALUES)
    with client.reader(broker, topic, start=1000) as reader, pytest.raises((Refused, AssertionError)) as refused:
        reader.read(1)
    assert isinstance(refused.value, Refused), "the client waited instead of failing"


def test_consumer_that_never_got_anything_closes(broker: Broker, topic: str, client: Client) -> None:
    with client.reader(broker, topic) as reader:
        reader.settle()
