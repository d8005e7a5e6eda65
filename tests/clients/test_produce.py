"""What producers send is what consumers get, whatever the codec, the acks and the client."""

from random import Random

import pytest
from confluent_kafka import Producer

from tests.batches import split_batches
from tests.brokers import Broker
from tests.clients.client import CODECS, Client, Message, Refused
from tests.clients.confluent_client import ConfluentClient
from tests.topics import create_topic, fetch, produce_values, read_all
from tests.waiting import DEADLINE_S

MESSAGES = [
    Message(b"plain"),
    Message(b"with a key", key=b"k1"),
    Message(b"with headers", key=b"k2", headers=(("trace", b"abc"), ("trace", b"twice"), ("empty", b""))),
    Message(b""),
    Message(None, key=b"a tombstone"),
    Message(b"empty key", key=b""),
    Message(bytes(range(256)) * 8, key=b"\x00\xff"),
    Message("žluťoučký kůň".encode()),
]


def stored_batches(broker: Broker, topic: str) -> list[int]:
    """The codec of each batch of the topic, as the broker keeps it."""
    with broker.connect() as connection:
        return [header.attributes & 7 for header, _ in split_batches(fetch(connection, topic, 0).records)]


@pytest.mark.parametrize("codec", CODECS)
def test_messages_come_back_as_they_were_sent_with_every_codec(broker: Broker, topic: str, client: Client, codec: str) -> None:
    if codec not in client.codecs:
        pytest.skip(f"{client.name} has no library for {codec} here")
    messages = MESSAGES + [Message(b"compressible " * 20, key=b"k")] * 20
    with client.writer(broker, codec=codec) as writer:
        assert writer.write(topic, messages) == list(range(len(messages)))
    with client.reader(broker, topic) as reader:
        received = reader.read(len(messages))
    assert [message.without_place() for message in received] == messages
    assert [message.offset for message in received] == list(range(len(messages)))
    stored = set(stored_batches(broker, topic))
    # librdkafka sends a batch as it is that compression would not make smaller: one that left before the others had come.
    assert stored in ({CODECS[codec]}, {CODECS[codec], CODECS["none"]})


def test_header_may_have_no_value(broker: Broker, topic: str, client: Client) -> None:
    if client.name == "kafka-python":
        pytest.skip("kafka-python refuses to send such a header")
    message = Message(b"value", headers=(("null", None), ("empty", b"")))
    with client.writer(broker) as writer:
        writer.write(topic, [message])
    with client.reader(broker, topic) as reader:
        assert reader.read(1)[0].without_place() == message


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_messages_arrive_in_order_with_all_acks(broker: Broker, topic: str, client: Client, acks: int) -> None:
    messages = [Message(b"%d" % number) for number in range(100)]
    with client.writer(broker, acks=acks) as writer:
        offsets = writer.write(topic, messages)
        if acks != 0:
            assert offsets == list(range(100))
        with client.reader(broker, topic) as reader:
            assert [message.value for message in reader.read(100)] == [message.value for message in messages]


def test_idempotent_producer_numbers_its_batches(broker: Broker, topic: str, client: Client) -> None:
    with client.writer(broker, idempotent=True) as writer:
        assert writer.write(topic, [Message(b"a"), Message(b"b")]) == [0, 1]
        assert writer.write(topic, [Message(b"c")]) == [2]
    with broker.connect() as connection:
        headers = [header for header, _ in split_batches(fetch(connection, topic, 0).records)]
    assert {header.producer_id >= 0 for header in headers} == {True}
    assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]


def test_two_idempotent_producers_have_different_ids(broker: Broker, topic: str, client: Client) -> None:
    for _ in range(2):
        with client.writer(broker, idempotent=True) as writer:
            writer.write(topic, [Message(b"one")])
    with broker.connect() as connection:
        headers = [header for header, _ in split_batches(fetch(connection, topic, 0).records)]
    assert len({header.producer_id for header in headers}) == 2


def test_big_message_makes_the_round_trip(broker: Broker, topic: str, client: Client) -> None:
    big = Message(bytes(index * 7 % 251 for index in range(1_000_000)), key=b"big")
    with client.writer(broker, max_request_bytes=1 << 21) as writer:
        writer.write(topic, [Message(b"before"), big, Message(b"after")])
    with client.reader(broker, topic) as reader:
        assert [message.without_place() for message in reader.read(3)] == [Message(b"before"), big, Message(b"after")]


def test_message_above_max_message_bytes_is_refused_and_the_next_one_is_not(broker: Broker, client: Client) -> None:
    topic = create_topic(broker, configs={"max.message.bytes": 1000})
    with client.writer(broker) as writer:
        with pytest.raises(Refused) as refused:
            writer.write(topic, [Message(b"x" * 2000)])
        assert refused.value.code == 10
        assert writer.write(topic, [Message(b"small")]) == [0]


def test_create_time_is_kept(broker: Broker, topic: str, client: Client) -> None:
    with client.writer(broker) as writer:
        writer.write(topic, [Message(b"then", timestamp=1_600_000_000_123), Message(b"earlier", timestamp=1_500_000_000_456)])
    with client.reader(broker, topic) as reader:
        assert [message.timestamp for message in reader.read(2)] == [1_600_000_000_123, 1_500_000_000_456]


def test_log_append_time_replaces_the_producers_time(broker: Broker, client: Client) -> None:
    topic = create_topic(broker, configs={"message.timestamp.type": "LogAppendTime"})
    with client.writer(broker) as writer:
        writer.write(topic, [Message(b"then", timestamp=1_600_000_000_123), Message(b"earlier", timestamp=1_500_000_000_456)])
    with client.reader(broker, topic) as reader:
        times = [message.timestamp or 0 for message in reader.read(2)]
    assert times == sorted(times)
    assert times[0] > 1_700_000_000_000


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_topic_that_asks_for_a_codec_stores_every_batch_with_it(broker: Broker, client: Client, codec: str) -> None:
    if codec != "uncompressed" and codec not in client.codecs:
        pytest.skip(f"{client.name} has no library for {codec} here")
    topic = create_topic(broker, configs={"compression.type": codec})
    messages = [Message(b"compressible " * 20, key=b"k", headers=(("h", b"v"),))] * 10
    with client.writer(broker, codec="gzip" if codec == "uncompressed" else "none") as writer:
        writer.write(topic, messages)
    assert set(stored_batches(broker, topic)) == {CODECS.get(codec, 0)}
    with client.reader(broker, topic) as reader:
        assert [message.without_place() for message in reader.read(10)] == messages


@pytest.mark.parametrize(("codec", "fast", "thorough"), [("gzip", 1, 9), ("lz4", 1, 17), ("zstd", -50, 19)])
def test_level_of_a_topic_decides_how_small_the_broker_makes_a_batch(broker: Broker, codec: str, fast: int, thorough: int) -> None:
    words = Random(7)
    values = [b" ".join(b"%d" % int(words.paretovariate(0.5)) for _ in range(1000)) for _ in range(5)]
    sizes = []
    for level in (fast, thorough):
        topic = create_topic(broker, configs={"compression.type": codec, f"compression.{codec}.level": level})
        produce_values(broker, topic, values)
        with ConfluentClient().reader(broker, topic) as reader:
            assert [message.value for message in reader.read(len(values))] == values
        sizes.append(sum(file.stat().st_size for file in broker.partition_directory(topic).glob("*.log")))
    assert sizes[1] < sizes[0]


def test_each_partition_has_offsets_of_its_own(broker: Broker, client: Client) -> None:
    topic = create_topic(broker, partitions=3)
    with client.writer(broker) as writer:
        offsets = writer.write(topic, [Message(b"%d" % number, partition=number % 3) for number in range(9)])
    assert offsets == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    with client.reader(broker, topic, partition=2) as reader:
        assert [message.value for message in reader.read(3)] == [b"2", b"5", b"8"]


def test_batches_of_very_many_records_to_a_compacted_topic_keep_their_order(broker: Broker) -> None:
    """Their records are looked at turn by turn; what the producer sends behind them, pipelined, stays behind them."""
    topic, count = create_topic(broker, configs={"cleanup.policy": "compact"}), 60_000
    settings = {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "linger.ms": 100, "batch.num.messages": 25_000}
    producer = Producer(settings)
    failures: list[object] = []
    for number in range(count):
        producer.produce(topic, b"%d" % number, b"k", on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(DEADLINE_S) == 0
    assert not failures
    assert [record.value for record in read_all(broker, topic)] == [b"%d" % number for number in range(count)]
