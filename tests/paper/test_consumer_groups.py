"""Claims 2, 3, 15 to 20, 22 to 24 and 27: consumer groups that divide the partitions among themselves over ZooKeeper.

`streams = Consumer.createMessageStreams(topic, n)`; iterating a stream never ends. A message goes to one consumer of each group; groups are
independent. A partition is the smallest unit of parallelism: one consumer of a group owns it at a time. There is no master: consumers sort
the partitions and themselves, and each takes its range. Registries in ZooKeeper say who is there, who owns what, and how far a group has
read; a new group starts at the smallest or the largest offset, which are called earliest and latest today. On embedded coordination and on
a real ZooKeeper.
"""

import json
import threading
from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from millstream.paper.message import Message
from millstream.paper.producer import Producer
from millstream.paper.settings import ConsumerSettings
from tests.paper.sites import SESSION_S, Reader, Site, fresh_group, wait_for_all
from tests.topics import LATEST, list_offset
from tests.waiting import wait_until

JAVAS_HASHES = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
}
"""Murmur2 of some keys, as the tests of Kafka's own clients have them; without the sign bit, modulo the partitions, it is the partition."""


def settled(site: Site, group: str, topic: str, count: int) -> dict[int, str]:
    """The owners, once every partition has one."""
    return wait_until(lambda: owners if len(owners := site.owners(group, topic)) == count else {}, f"{count} partitions of {topic} owned")


def await_shares(*readers: Reader, shares: list[int]) -> None:
    wait_until(lambda: sorted(len(reader.partitions) for reader in readers) == shares, f"shares of {shares}")


def test_iterating_a_stream_never_ends_it_blocks_until_the_next_message(site: Site) -> None:
    topic = site.topic()
    reader = site.reader(fresh_group(), topic)
    site.send(topic, 5)
    wait_for_all(5, reader)
    site.send(topic, 5, start=5)
    assert wait_for_all(10, reader) == list(range(10))


def test_consumers_of_a_group_share_one_copy_and_other_groups_have_their_own(site: Site) -> None:
    topic, group = site.topic(4), fresh_group()
    sharing = [site.reader(group, topic) for _ in range(2)]
    alone = site.reader(fresh_group(), topic)
    await_shares(*sharing, shares=[2, 2])
    site.send(topic, 400, partitions=4)
    assert wait_for_all(400, *sharing) == list(range(400))
    assert wait_for_all(400, alone) == list(range(400))
    assert all(reader.numbers for reader in sharing)


def test_a_key_decides_the_partition_as_javas_clients_do_it_and_no_key_spreads(site: Site) -> None:
    topic = site.topic(10)
    with Producer(site.broker.bootstrap_servers) as producer:
        for key in JAVAS_HASHES:
            producer.send(topic, [Message(b"1", key), Message(b"2", key)])
    reader = site.reader(fresh_group(), topic)
    wait_until(lambda: len(reader.got) == 8, "eight messages")
    expected = {(key.encode(), (hashed & 0x7FFFFFFF) % 10) for key, hashed in JAVAS_HASHES.items()}
    assert {(message.key, message.partition) for message in reader.got} == expected
    with Producer(site.broker.bootstrap_servers, options={"sticky.partitioning.linger.ms": 0}) as producer:
        producer.send(topic, [b"1"] * 200)
    wait_until(lambda: len(reader.got) == 208, "two hundred more")
    assert len({message.partition for message in reader.got[8:]}) > 5


def test_partitions_are_divided_evenly_in_ranges_of_sorted_streams(site: Site) -> None:
    topic, group = site.topic(7), fresh_group()
    readers = [site.reader(group, topic, consumer_id=name) for name in ("cat", "ann", "bob")]
    await_shares(*readers, shares=[2, 2, 3])
    owners = settled(site, group, topic, 7)
    assert [owners[partition] for partition in range(7)] == ["ann-0"] * 3 + ["bob-0"] * 2 + ["cat-0"] * 2
    assert readers[1].partitions == [0, 1, 2]


def test_streams_of_one_consumer_have_partitions_of_their_own_and_one_thread_each(site: Site) -> None:
    topic = site.topic(4)
    reader = site.reader(fresh_group(), topic, streams=2)
    site.send(topic, 200, partitions=4)
    assert wait_for_all(200, reader) == list(range(200))
    by_stream = [{message.partition for message in reader.by_stream[number]} for number in range(2)]
    assert by_stream == [{0, 1}, {2, 3}]


def test_more_streams_than_partitions_leave_some_waiting_until_they_are_needed(site: Site) -> None:
    topic, group = site.topic(2), fresh_group()
    readers = [site.reader(group, topic, consumer_id=name) for name in ("ann", "bob", "cat")]
    await_shares(*readers, shares=[0, 1, 1])
    site.send(topic, 50, partitions=2)
    wait_for_all(50, *readers)
    assert readers[2].numbers == []
    readers[0].close()
    await_shares(*readers[1:], shares=[1, 1])
    site.send(topic, 50, start=50, partitions=2)
    assert wait_for_all(100, *readers) == list(range(100))


def test_messages_of_a_partition_come_in_order(site: Site) -> None:
    topic = site.topic(3)
    site.send(topic, 900, partitions=3)
    reader = site.reader(fresh_group(), topic)
    wait_for_all(900, reader)
    for partition in range(3):
        numbers = [int(message.payload or b"") for message in reader.got if message.partition == partition]
        assert numbers == sorted(numbers)
        assert [message.offset for message in reader.got if message.partition == partition] == list(range(len(numbers)))


def test_several_topics_are_read_by_one_consumer(site: Site) -> None:
    first, second = site.topic(2), site.topic(1)
    site.send(first, 20, partitions=2)
    site.send(second, 10)
    consumer = site.consumer(fresh_group())
    streams = consumer.create_message_streams({first: 2, second: 1})
    assert [stream.topic for stream in streams] == [first, first, second]
    assert [next(streams[2]).payload for _ in range(10)] == [b"%d" % number for number in range(10)]
    assert [stream.partitions for stream in streams] == [[0], [1], [0]]


def test_the_registries_say_who_is_there_who_owns_what_and_how_far_it_has_read(site: Site) -> None:
    topic, group = site.topic(2), fresh_group()
    site.send(topic, 40, partitions=2)
    reader = site.reader(group, topic, consumer_id="ann")
    wait_for_all(40, reader)
    broker, broker_stat = site.tree.get("/brokers/ids/1")
    assert (json.loads(broker)["host"], json.loads(broker)["port"]) == site.broker.address
    consumer, consumer_stat = site.tree.get(f"/consumers/{group}/ids/ann")
    assert json.loads(consumer) == {"topics": {topic: 1}, "session_timeout_ms": round(SESSION_S * 1000)}
    assert settled(site, group, topic, 2) == {0: "ann-0", 1: "ann-0"}
    owner_stat = site.tree.exists(f"/consumers/{group}/owners/{topic}/0")
    read = Counter(message.partition for message in reader.got)
    reader.consumer.commit()
    # The last message is in hand until the next one is asked for, which never comes.
    wait_until(lambda: sum(site.offsets(group, topic).values()) >= 39, "the offsets are stored")
    assert all(offset <= read[partition] for partition, offset in site.offsets(group, topic).items())
    offset_stat = site.tree.exists(f"/consumers/{group}/offsets/{topic}/0")
    assert broker_stat.ephemeralOwner
    assert consumer_stat.ephemeralOwner == owner_stat.ephemeralOwner != 0
    assert offset_stat.ephemeralOwner == 0
    reader.close()
    assert site.owners(group, topic) == {}
    assert site.tree.exists(f"/consumers/{group}/ids/ann") is None
    assert set(site.offsets(group, topic)) == {0, 1}


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_new_group_starts_at_the_earliest_or_the_latest_offset(site: Site, start: str) -> None:
    topic, group = site.topic(), fresh_group()
    site.send(topic, 10)
    settings = ConsumerSettings(start=start, auto_commit_interval_s=0.1)  # type: ignore[arg-type]  # one of the two
    reader = Reader(site.consumer(group, settings=settings), topic)
    site.send(topic, 10, start=10)
    first = 0 if start == "earliest" else 10
    wait_until(lambda: reader.numbers[-1:] == [19], "the last message")
    assert reader.numbers == list(range(first, 20))


def test_a_group_at_the_latest_offset_that_has_read_nothing_misses_nothing_when_it_comes_back(site: Site) -> None:
    topic, group = site.topic(), fresh_group()
    site.send(topic, 10)
    settings = ConsumerSettings(start="latest")
    Reader(site.consumer(group, settings=settings), topic).close()
    site.send(topic, 10, start=10)
    reader = Reader(site.consumer(group, settings=settings), topic)
    wait_until(lambda: reader.numbers == list(range(10, 20)), "what was sent while no consumer was there")


def test_a_stream_that_is_not_read_stalls_no_other(site: Site) -> None:
    topic = site.topic(2)
    consumer = site.consumer(fresh_group())
    stalled, running = consumer.create_message_streams(topic, 2)
    site.send(topic, 5000, partitions=2)
    assert next(stalled).partition == 0
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.extend(message.offset for message in running), daemon=True)
    thread.start()
    with site.broker.connect() as connection:
        end = list_offset(connection, topic, LATEST, partition=1).offset
    wait_until(lambda: len(got) == end, "the other stream has read all")
    assert got == list(range(end))


def test_a_partition_that_is_added_is_read(site: Site) -> None:
    topic = site.topic(1)
    reader = site.reader(fresh_group(), topic)
    admin = AdminClient({"bootstrap.servers": site.broker.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(10)
    wait_until(lambda: reader.partitions == [0, 1, 2], "three partitions")
    site.send(topic, 60, partitions=3)
    assert wait_for_all(60, reader) == list(range(60))
