"""The connections of Millstream's own client against a real broker: raw batches in and out, leaders, offsets, requests under way."""

import asyncio
import socket

import pytest

from millstream.address import Address
from millstream.client.async_connection import AsyncConnection
from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import FetchFrom, FetchRequest
from millstream.client.codecs.produce import BatchFor, ProduceRequest
from millstream.client.errors import BrokerUnavailable
from millstream.errors import CorruptMessage, OffsetOutOfRange, UnknownTopicOrPartition
from millstream.offset import EARLIEST, LATEST, MAX_TIMESTAMP
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import split_batches
from millstream.wire.records import decode_records
from tests.batches import encode_batch, now_ms
from tests.brokers import Broker, StartBroker
from tests.clients.client import Client, Message
from tests.topics import create_topic, fresh_name, produce_values, topic_id


@pytest.fixture
def cluster(broker: Broker) -> Cluster:
    return Cluster(broker.bootstrap_servers)


def values(records: memoryview) -> list[bytes | None]:
    return [record.value for _, batch in split_batches(records) for record in decode_records(batch)]


def test_a_topic_is_described_with_its_leaders_and_its_id(cluster: Cluster, broker: Broker) -> None:
    name = create_topic(broker, partitions=3)
    with cluster:
        topic = cluster.topic(name)
        assert list(topic.partitions) == [0, 1, 2]
        assert topic.topic_id == topic_id(broker, name)
        assert cluster.metadata.brokers[cluster.leader(name, 2)] == broker.address


def test_batches_go_out_and_come_back_byte_for_byte_but_for_what_the_log_stamps(cluster: Cluster, topic: str) -> None:
    batch = encode_batch([b"one", b"two", b"three"])
    with cluster:
        produced = cluster.produce(BatchFor(topic, 0, batch))
        assert produced is not None
        assert (produced.topic_partition, produced.base_offset) == (TopicPartition(topic, 0), 0)
        fetched = cluster.fetch(FetchFrom(topic, 0, offset=0))
    assert bytes(fetched.records)[16:] == batch[16:]
    assert values(fetched.records) == [b"one", b"two", b"three"]
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset) == (3, 3, 0)
    assert fetched.topic_partition == TopicPartition(topic, 0)


def test_a_produce_without_acknowledgement_arrives(cluster: Cluster, topic: str) -> None:
    with cluster:
        assert cluster.produce(BatchFor(topic, 0, encode_batch([b"quiet"])), acks=0) is None
        assert values(cluster.fetch(FetchFrom(topic, 0, offset=0), max_wait_ms=10_000).records) == [b"quiet"]


def test_what_other_clients_write_is_read(cluster: Cluster, topic: str, client: Client, broker: Broker) -> None:
    with client.writer(broker) as writer:
        writer.write(topic, [Message(b"a"), Message(b"b")])
    with cluster:
        fetched = cluster.fetch(FetchFrom(topic, 0, offset=0))
    assert values(fetched.records) == [b"a", b"b"]


def test_several_requests_are_under_way_on_one_connection(cluster: Cluster, broker: Broker) -> None:
    name = create_topic(broker, partitions=4)
    for partition in range(4):
        produce_values(broker, name, [b"%d" % partition], partition=partition)
    with cluster, cluster.connect(cluster.leader(name, 0)) as connection:
        pending = [connection.send(FetchRequest([FetchFrom(name, partition, offset=0)])) for partition in range(4)]
        assert connection.unanswered == 4
        # Taken out of order: what came on the way is kept.
        answers = [connection.receive(one).partitions[0] for one in reversed(pending)]
    assert [values(answer.records) for answer in answers] == [[b"3"], [b"2"], [b"1"], [b"0"]]


def test_many_partitions_travel_in_one_request(cluster: Cluster, broker: Broker) -> None:
    name = create_topic(broker, partitions=3)
    with cluster, cluster.connect(cluster.leader(name, 0)) as connection:
        request = ProduceRequest([BatchFor(name, partition, encode_batch([b"%d" % partition])) for partition in range(3)])
        produced = connection.call(request).partitions
        assert [(each.partition, each.error_code, each.base_offset) for each in sorted(produced)] == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
        fetched = connection.call(FetchRequest([FetchFrom(name, partition, offset=0) for partition in range(3)], min_bytes=1)).partitions
    assert [values(each.records) for each in sorted(fetched)] == [[b"0"], [b"1"], [b"2"]]


def test_a_fetch_waits_for_the_next_message(cluster: Cluster, topic: str, broker: Broker) -> None:
    with cluster, cluster.connect(cluster.leader(topic, 0)) as connection:
        pending = connection.send(FetchRequest([FetchFrom(topic, 0, offset=0)], max_wait_ms=20_000))
        produce_values(broker, topic, [b"late"])
        assert values(connection.receive(pending).partitions[0].records) == [b"late"]


async def test_a_follower_on_an_event_loop_has_fetches_under_way_and_gets_raw_batches(broker: Broker) -> None:
    name = create_topic(broker, partitions=2)
    batch = encode_batch([b"x" * 300_000])
    with Cluster(broker.bootstrap_servers) as cluster:
        epoch = cluster.topic(name).partitions[0].leader_epoch
        cluster.produce(BatchFor(name, 0, batch))
    async with await AsyncConnection.open(Address(*broker.address)) as connection:
        first = connection.send(FetchRequest([FetchFrom(name, 0, offset=0, leader_epoch=epoch)]))
        waiting = connection.send(FetchRequest([FetchFrom(name, 1, offset=0)], max_wait_ms=20_000))
        assert bytes((await first).partitions[0].records)[16:] == batch[16:]
        assert connection.unanswered == 1
        await asyncio.to_thread(produce_values, broker, name, [b"late"], partition=1)
        assert values((await waiting).partitions[0].records) == [b"late"]


def test_offsets_are_found_by_time_and_at_the_ends(cluster: Cluster, broker: Broker) -> None:
    name = create_topic(broker, partitions=2)
    start = now_ms() - 10_000
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    with cluster:
        cluster.produce(BatchFor(name, 0, encode_batch([b"a", b"b", b"c"], timestamp=start, timestamp_step=1000)))
        assert cluster.offsets({first: start + 500})[first][:2] == (1, start + 1000)
        assert cluster.offsets({first: start + 9999})[first][:2] == (-1, -1)
        ends = cluster.offsets({first: LATEST, second: LATEST})
        assert (ends[first].offset, ends[second].offset) == (3, 0)
        assert cluster.offsets({first: EARLIEST})[first].offset == 0
        assert cluster.offsets({first: MAX_TIMESTAMP})[first][:2] == (2, start + 2000)


def test_an_unknown_topic_is_named_in_the_error_and_not_created(cluster: Cluster) -> None:
    name = fresh_name("nowhere")
    with cluster:
        for _ in range(2):
            with pytest.raises(UnknownTopicOrPartition, match=f"no topic '{name}'"):
                cluster.fetch(FetchFrom(name, 0, offset=0))


def test_a_partition_that_is_not_there_is_named_in_the_error(cluster: Cluster, topic: str) -> None:
    with cluster, pytest.raises(UnknownTopicOrPartition, match="no partition 7"):
        cluster.fetch(FetchFrom(topic, 7, offset=0))


def test_errors_of_a_partition_are_exceptions_of_that_name(cluster: Cluster, topic: str) -> None:
    with cluster:
        with pytest.raises(OffsetOutOfRange, match=f"there is no offset 99 in {topic}-0"):
            cluster.fetch(FetchFrom(topic, 0, offset=99))
        with pytest.raises(CorruptMessage):
            cluster.produce(BatchFor(topic, 0, encode_batch([b"x"], crc=1)))


def test_connection_that_the_broker_closed_meanwhile_is_opened_again(cluster: Cluster, broker: Broker) -> None:
    with cluster:
        cluster.refresh([])
        for connection in cluster._connections.values():
            connection._socket.shutdown(socket.SHUT_RD)  # what an end by the broker looks like
        assert list(cluster.refresh([]).brokers.values()) == [broker.address]


def test_no_broker_is_an_error_that_names_every_address_that_was_tried() -> None:
    with Cluster("127.0.0.1:1,127.0.0.1:2") as nowhere, pytest.raises(BrokerUnavailable, match=r"127.0.0.1:1.*127.0.0.1:2"):
        nowhere.topic("clicks")


def test_a_broker_that_restarts_is_found_again(start_broker: StartBroker) -> None:
    own = start_broker()
    name = create_topic(own)
    with Cluster(own.bootstrap_servers) as cluster:
        cluster.produce(BatchFor(name, 0, encode_batch([b"before"])))
        own.restart()
        assert values(cluster.fetch(FetchFrom(name, 0, offset=0)).records) == [b"before"]
