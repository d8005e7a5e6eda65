"""Claims 5 to 10, 14 and 24: a partition is a log of segments, addressed by offsets, pulled from anywhere.

A partition is stored as segment files of about the same size, and a message is appended to the last one. Messages have no ids: a message is
addressed by its offset in the log. A consumer pulls: each request says from which offset and how many bytes, and one answer holds many
messages. The broker finds the file by searching a sorted list of the first offsets of the segments. A consumer may go back to an old offset
and consume again, and a new one starts at the smallest or the largest offset. (The paper's offsets are byte positions and a message is
shown once it is flushed; ours are consecutive numbers, shown once replicated, and flushing is a setting.)
"""

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.batches import decode_records, encode_batch
from tests.brokers import Broker
from tests.clients.confluent_client import consumer_settings
from tests.topics import create_topic, fetch, produce, produce_values, read_all
from tests.waiting import wait_until

SEGMENT_BYTES = 1 << 20


@pytest.fixture(scope="module")
def segmented(broker: Broker) -> str:
    """A topic with some six segments of one MiB; the value of a message starts with its offset."""
    topic = create_topic(broker, configs={"segment.bytes": SEGMENT_BYTES})
    produce_values(broker, topic, [b"%08d" % number + bytes(50_000) for number in range(120)], batch_size=5)
    return topic


def base_offsets(broker: Broker, topic: str) -> list[int]:
    return sorted(int(file.stem) for file in broker.partition_directory(topic).glob("*.log"))


def test_segments_have_about_the_same_size_and_only_the_last_one_grows(broker: Broker) -> None:
    topic = create_topic(broker, configs={"segment.bytes": SEGMENT_BYTES})
    produce_values(broker, topic, [bytes(50_000)] * 100, batch_size=2)
    folder = broker.partition_directory(topic)
    before = {file.name: file.stat().st_size for file in sorted(folder.glob("*.log"))}
    *full, last = before
    assert len(full) >= 4
    assert all(SEGMENT_BYTES * 0.85 <= before[name] <= SEGMENT_BYTES for name in full)
    produce_values(broker, topic, [b"one more"])
    after = {file.name: file.stat().st_size for file in sorted(folder.glob("*.log"))}
    assert {name: after[name] for name in full} == {name: before[name] for name in full}
    assert after[last] > before[last]


def test_a_segment_is_named_after_the_first_offset_in_it(broker: Broker, segmented: str) -> None:
    for base_offset in base_offsets(broker, segmented):
        file = broker.partition_directory(segmented) / f"{base_offset:020}.log"
        assert decode_records(file.read_bytes()[:600_000])[0].offset == base_offset


def test_offsets_are_consecutive_and_address_messages(broker: Broker, segmented: str) -> None:
    records = read_all(broker, segmented)
    assert [record.offset for record in records] == list(range(120))
    assert all(record.value is not None and record.value[:8] == b"%08d" % record.offset for record in records)


def test_message_is_found_in_any_segment_by_its_offset_alone(broker: Broker, segmented: str) -> None:
    wanted = [offset + step for offset in base_offsets(broker, segmented) for step in (-1, 0, 1) if 0 <= offset + step < 120]
    with broker.connect() as connection:
        for offset in wanted:
            records = decode_records(fetch(connection, segmented, offset, max_bytes=1000).records)
            (found,) = [record for record in records if record.offset == offset]
            assert found.value is not None
            assert found.value[:8] == b"%08d" % offset


def test_consumer_pulls_hundreds_of_kilobytes_with_one_request(broker: Broker, topic: str) -> None:
    produce_values(broker, topic, [bytes(200)] * 5000, batch_size=50)
    with broker.connect() as connection:
        answer = fetch(connection, topic, 0, max_bytes=400_000)
    assert 300_000 < len(answer.records) <= 400_000
    assert len(decode_records(answer.records)) > 1000


def test_nothing_is_pushed_to_a_consumer_that_does_not_ask(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        fetch(connection, topic, 0, max_wait_ms=0)
        produce_values(broker, topic, [b"news"])
        connection.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.socket.recv(1)


def test_pull_says_how_many_bytes_are_acceptable(broker: Broker, topic: str) -> None:
    produce_values(broker, topic, [bytes(1000)] * 100, batch_size=1)
    with broker.connect() as connection:
        sizes = [len(fetch(connection, topic, 0, max_bytes=limit).records) for limit in (5_000, 20_000, 60_000)]
    assert sizes[0] <= 5_000 < sizes[1] <= 20_000 < sizes[2] <= 60_000


def test_consumer_goes_back_and_consumes_again(broker: Broker, topic: str) -> None:
    values: list[bytes | None] = [b"%d" % number for number in range(50)]
    produce_values(broker, topic, values)
    first = read_all(broker, topic)
    assert read_all(broker, topic, offset=20) == first[20:]
    assert read_all(broker, topic) == first


@pytest.mark.parametrize(("reset", "expected"), [("earliest", 0), ("latest", 10)])
def test_new_consumer_starts_at_the_smallest_or_the_largest_offset_as_configured(
    broker: Broker, topic: str, reset: str, expected: int
) -> None:
    produce_values(broker, topic, [b"old"] * 10)
    consumer = Consumer(consumer_settings(broker) | {"auto.offset.reset": reset})
    consumer.assign([TopicPartition(topic, 0, 12345)])

    def first_offset() -> list[int]:
        with broker.connect() as connection:
            assert produce(connection, topic, encode_batch([b"new"])).error_code == 0
        event = consumer.poll(0.2)
        return [event.offset() or 0] if event is not None and event.error() is None else []

    (offset,) = wait_until(first_offset, "a message")
    consumer.close()
    assert offset == expected if reset == "earliest" else offset >= expected
