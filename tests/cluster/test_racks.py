"""Three brokers in three racks: consumers that say where they are read from the replica beside them (KIP-392).

The raw requests are sent to Apache Kafka too (`MILLSTREAM_TEST_PEER=kafka`).
"""

import asyncio
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as Place
from kio.schema.errors import ErrorCode

from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import FetchFrom
from tests.brokers import IS_KAFKA
from tests.cluster.brokers import Brokers, KafkaBrokers
from tests.cluster.brokers_on_tree import BrokersOnTree, brokers_on_tree
from tests.connection import FETCH, LIST_OFFSETS, Connection
from tests.java import is_java_there, run_tool
from tests.monitoring.published import FLAGS, series
from tests.topics import create_assigned_topic, fetch_fields
from tests.waiting import wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas with importlib.resources.read_text
    from kafka import KafkaConsumer
    from kafka import TopicPartition as PythonPartition

pytestmark = pytest.mark.slow

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
COUNT = 2_000
NODES = (1, 2, 3)
ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS = 43, 45


def rack(node_id: int) -> str:
    return f"rack-{node_id}"


def flags(node_id: int) -> list[str]:
    return [*FLAGS, "-X", f"broker.rack={rack(node_id)}", "-X", f"replica.selector.class={SELECTOR}"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers[Any]]:
    directory = tmp_path_factory.mktemp("racks")
    if IS_KAFKA:
        kafka = KafkaBrokers(directory, {"replica.selector.class": SELECTOR}, session_timeout_ms=6000)
        for node_id, node in kafka.nodes.items():
            node.options = {**node.options, "broker.rack": rack(node_id)}
        with kafka:
            yield kafka
    else:
        with brokers_on_tree(directory, flags={node_id: flags(node_id) for node_id in NODES}) as made:
            yield made


def created(cluster: Brokers[Any], *replicas: int, records: int = COUNT) -> str:
    """A topic with one partition, led by the first of these brokers and in sync on all of them, and records in it."""
    with cluster.nodes[cluster.controller()].connect() as connection:
        topic = create_assigned_topic(connection, replicas)
    wait_until(lambda: all(_in_sync(cluster, topic, asked) == set(replicas) for asked in NODES), f"{topic} is known everywhere")
    produce(cluster, topic, records)
    return topic


def _in_sync(cluster: Brokers[Any], topic: str, asked: int) -> set[int]:
    partitions = cluster.metadata(topic, asked=asked)
    return set(partitions[0].in_sync) if 0 in partitions else set()


def produce(cluster: Brokers[Any], topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 5, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%08d" % number + b"x" * 100)
    assert producer.flush(60) == 0


def fetch(connection: Connection, topic: str, offset: int, *, rack_id: str = "", version: int = 12, **fields: Any) -> Any:
    asked = fetch_fields(topic, offset, max_wait_ms=0) | fields
    return connection.ask(FETCH, version, {**asked, "rack_id": rack_id} if version >= 11 else asked).responses[0].partitions[0]


def bytes_out(cluster: BrokersOnTree, topic: str) -> dict[int, float]:
    """How much each broker has sent to consumers of the topic."""
    name = f'kafka_server_brokertopicmetrics_bytesout_total{{topic="{topic}"}}'
    return {node_id: series(node).get(name, 0) for node_id, node in cluster.nodes.items() if node.is_running}


def test_leader_sends_consumers_to_the_replica_in_their_rack(cluster: Brokers[Any]) -> None:
    topic = created(cluster, 1, 2, records=10)
    with cluster.nodes[1].connect() as connection:
        found = fetch(connection, topic, 0, rack_id=rack(2))
        assert (found.error_code, found.preferred_read_replica, found.records or b"") == (0, 2, b"")
        assert found.high_watermark == found.last_stable_offset == 10
        for near in (rack(1), rack(3), "", "elsewhere"):
            found = fetch(connection, topic, 0, rack_id=near)
            assert (found.error_code, found.preferred_read_replica) == (0, -1)
            assert found.records
        found = fetch(connection, topic, 11, rack_id=rack(2))
        assert (found.error_code, found.preferred_read_replica) == (ErrorCode.offset_out_of_range, -1)


def test_follower_answers_consumers_from_version_11_on(cluster: Brokers[Any]) -> None:
    topic = created(cluster, 1, 2, records=10)
    with cluster.nodes[2].connect() as connection:
        wait_until(lambda: fetch(connection, topic, 0).high_watermark == 10, "the follower knows what is committed")
        for version in (11, 12):
            found = fetch(connection, topic, 0, version=version)
            assert (found.error_code, found.preferred_read_replica, found.last_stable_offset) == (0, -1, 10)
            assert found.records
        assert fetch(connection, topic, 0, version=10).error_code == ErrorCode.not_leader_or_follower
        assert fetch(connection, topic, 11).error_code == ErrorCode.offset_out_of_range
        for epoch, code in ((0, ErrorCode.none), (1, ErrorCode.unknown_leader_epoch)):
            wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": epoch}
            assert fetch(connection, topic, 0, topics=[{"topic": topic, "partitions": [wanted]}]).error_code == code
        asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
        answer = connection.ask(
            LIST_OFFSETS, 6, {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [asked]}]}
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.not_leader_or_follower, "offsets are the leader's to say"
    with cluster.nodes[3].connect() as connection:
        assert fetch(connection, topic, 0).error_code == ErrorCode.not_leader_or_follower


Read = Callable[[str, str, str], Sequence[bytes]]


def read_with_confluent(servers: str, topic: str, client_rack: str) -> Sequence[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "racks", "client.rack": client_rack, "enable.auto.commit": False})
    try:
        consumer.assign([Place(topic, 0, OFFSET_BEGINNING)])
        return take(consumer, COUNT)
    finally:
        consumer.close()


def take(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []

    def has_all() -> bool:
        values.extend(message.value() or b"" for message in consumer.consume(500, timeout=1) if message.error() is None)
        return len(values) >= count

    wait_until(has_all, f"{count} messages were consumed")
    return values


def read_with_java(servers: str, topic: str, client_rack: str) -> Sequence[bytes]:
    if not is_java_there():
        pytest.skip("no Java here, or no jars of Kafka")
    arguments = ["--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", str(COUNT), "--timeout-ms", "60000"]
    output = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", servers, *arguments, "--command-property", f"client.rack={client_rack}"),
    )
    return [line.encode() for line in output.splitlines()]


def read_with_aiokafka(servers: str, topic: str, client_rack: str) -> Sequence[bytes]:
    async def read() -> list[bytes]:
        values: list[bytes] = []
        async with AIOKafkaConsumer(bootstrap_servers=servers, client_rack=client_rack) as consumer:
            consumer.assign([AioPartition(topic, 0)])
            await consumer.seek_to_beginning()
            while len(values) < COUNT:
                fetched = await consumer.getmany(timeout_ms=1000)
                values += [message.value or b"" for messages in fetched.values() for message in messages]
        return values

    return asyncio.run(asyncio.wait_for(read(), 60))


def read_with_kafka_python(servers: str, topic: str, client_rack: str) -> Sequence[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=servers.split(","), client_rack=client_rack)
    values: list[bytes] = []

    def has_all() -> bool:
        values.extend(message.value for messages in consumer.poll(timeout_ms=1000).values() for message in messages)
        return len(values) >= COUNT

    try:
        consumer.assign([PythonPartition(topic, 0)])
        consumer.seek_to_beginning()
        wait_until(has_all, f"{COUNT} messages were consumed")
    finally:
        consumer.close()
    return values


@pytest.mark.skipif(IS_KAFKA, reason="counts what Millstream says that it sent")
@pytest.mark.parametrize("read", [read_with_confluent, read_with_java, read_with_aiokafka, read_with_kafka_python])
def test_real_clients_read_everything_from_the_follower_in_their_rack(cluster: BrokersOnTree, read: Read) -> None:
    topic = created(cluster, 1, 2, 3)
    values = read(cluster.bootstrap_servers, topic, rack(3))
    assert [value[:8] for value in values] == [b"%08d" % number for number in range(COUNT)]
    wait_until(lambda: bytes_out(cluster, topic)[3] >= COUNT * 108, "the follower in the rack has sent everything")
    assert [bytes_out(cluster, topic)[node_id] for node_id in (1, 2)] == [0, 0]


@pytest.mark.skipif(IS_KAFKA, reason="counts what Millstream says that it sent")
def test_consumer_goes_on_from_the_leader_when_its_follower_is_killed(cluster: BrokersOnTree) -> None:
    victim = next(node_id for node_id in NODES if node_id != cluster.controller())
    leader, other = (node_id for node_id in NODES if node_id != victim)
    topic = created(cluster, leader, other, victim)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "racks", "client.rack": rack(victim), "enable.auto.commit": False}
    )
    try:
        consumer.assign([Place(topic, 0, OFFSET_BEGINNING)])
        assert len(take(consumer, COUNT)) == COUNT
        wait_until(lambda: bytes_out(cluster, topic)[victim] >= COUNT * 108, "the follower in the rack has sent everything")
        cluster.kill(victim)
        produce(cluster, topic, 100)
        assert [value[:8] for value in take(consumer, 100)] == [b"%08d" % number for number in range(100)]
        wait_until(lambda: bytes_out(cluster, topic)[leader] > 0, "the leader sends instead")
    finally:
        consumer.close()
        cluster.start(victim)


@pytest.mark.skipif(IS_KAFKA, reason="about Millstream's own client")
def test_own_client_notices_that_its_leader_follows_another_one(cluster: BrokersOnTree) -> None:
    topic = created(cluster, 1, 2, records=10)
    with Cluster(cluster.bootstrap_servers) as client:
        assert client.fetch(FetchFrom(topic, 0, 0)).records
        assert client.led(topic, 0).leader == 1
        partition = {"partition_index": 0, "replicas": [2, 1]}
        cluster.ask(ALTER_PARTITION_REASSIGNMENTS, 0, {"timeout_ms": 30_000, "topics": [{"name": topic, "partitions": [partition]}]})
        wait_until(lambda: cluster.state(topic)["replicas"] == [2, 1], "broker 2 is preferred")
        cluster.ask(ELECT_LEADERS, 2, {"election_type": 0, "topic_partitions": [{"topic": topic, "partitions": [0]}], "timeout_ms": 30_000})
        wait_until(lambda: cluster.metadata(topic, asked=1)[0].leader == 2, "broker 1 follows")
        assert client.fetch(FetchFrom(topic, 0, 0)).records
        assert client.led(topic, 0).leader == 2, "it was not content with what a follower has"
