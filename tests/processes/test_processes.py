"""Several brokers under one command: they serve clients together, are started again when they end, and end together."""

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from millstream.client.admin.reassignment_admin import ReassignmentAdmin
from millstream.client.admin.topic_creation import find_or_create
from millstream.client.cluster import Cluster
from millstream.errors import UsageError
from millstream.testing import Broker
from millstream.topic_partition import TopicPartition as Place
from tests.connection import METADATA, Connection
from tests.monitoring.published import FLAGS, page, series
from tests.processes.brokers import ProcessesBroker, free_ports
from tests.topics import create_assigned_topic, fresh_name
from tests.waiting import is_gone, wait_until

PARTITIONS = 4


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessesBroker]:
    """Two brokers for all tests that leave them as they were."""
    broker = ProcessesBroker(tmp_path_factory.mktemp("two"))
    broker.flags = [*FLAGS[1:], "--registry", "127.0.0.1:0"]
    broker.start(deadline_s=120)
    yield broker
    broker.kill()


def test_every_broker_is_in_the_ready_line_and_in_the_metadata(two: ProcessesBroker) -> None:
    metadata = AdminClient({"bootstrap.servers": two.bootstrap_servers}).list_topics(timeout=60)
    places = two.ready_line
    assert {f"broker-{number}": f"{broker.host}:{broker.port}" for number, broker in metadata.brokers.items()} == {
        name: address for name, address in places.items() if name.startswith("broker-")
    }
    assert places["broker"] not in (places["broker-1"], places["broker-2"])
    assert set(two.children()) == {1, 2}


def test_a_topic_is_spread_over_the_brokers_with_one_replica(two: ProcessesBroker) -> None:
    name = two.create_topic(partitions=PARTITIONS)
    assert Counter(two.leaders(name).values()) == {1: 2, 2: 2}
    partitions = AdminClient({"bootstrap.servers": two.bootstrap_servers}).list_topics(name, timeout=60).topics[name].partitions
    assert {len(partition.replicas) for partition in partitions.values()} == {1}


def test_a_group_consumes_what_was_written_through_any_broker(two: ProcessesBroker) -> None:
    writing = two.begin_writing(200, partitions=PARTITIONS)
    writing.finish()
    consumer = Consumer({"bootstrap.servers": two.ready_line["broker-2"], "group.id": fresh_name("group"), "auto.offset.reset": "earliest"})
    consumer.subscribe([writing.topic])
    found: set[int] = set()

    def has_all() -> bool:
        found.update(int(message.value() or b"") for message in consumer.consume(500, timeout=0.2) if message.error() is None)
        return len(found) == 200

    wait_until(has_all, "all messages", deadline_s=60)
    consumer.commit(asynchronous=False)
    consumer.close()
    admin = AdminClient({"bootstrap.servers": two.bootstrap_servers})
    offsets = admin.list_topics("__consumer_offsets", timeout=60).topics["__consumer_offsets"]
    assert {len(partition.replicas) for partition in offsets.partitions.values()} == {1}


def test_one_page_has_the_metrics_of_all_brokers(two: ProcessesBroker) -> None:
    writing = two.begin_writing(100, partitions=PARTITIONS)
    writing.finish()
    total = f'kafka_server_brokertopicmetrics_messagesin_total{{topic="{writing.topic}"}}'
    wait_until(lambda: series(two).get(total) == 100, "all messages are counted")
    values = series(two)
    assert values['kafka_server_replicamanager_leadercount{broker="1"}'] >= 2
    assert values['kafka_server_replicamanager_leadercount{broker="2"}'] >= 2
    assert values['process_resident_memory_bytes{broker="1"}'] != values['process_resident_memory_bytes{broker="2"}']
    assert values["kafka_brokers"] == 2
    assert page(two, "/ready")[0] == 200


def test_the_registry_keeps_its_schemas_in_the_brokers(two: ProcessesBroker) -> None:
    schema = json.dumps({"schema": json.dumps("string")}).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = urllib.request.Request(f"http://{two.ready_line['registry']}/subjects/{fresh_name()}/versions", schema, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.load(answer)["id"] > 0
    schemas = AdminClient({"bootstrap.servers": two.bootstrap_servers}).list_topics("_schemas", timeout=60).topics["_schemas"]
    assert len(schemas.partitions[0].replicas) == 1


def test_topics_that_parts_of_millstream_make_for_themselves_have_one_replica(two: ProcessesBroker) -> None:
    with Cluster(two.bootstrap_servers) as cluster:
        made = find_or_create(cluster, fresh_name(), partitions=2, configs={})
    assert [len(partition.replicas) for partition in made.partitions.values()] == [1, 1]


def test_a_broker_that_is_killed_under_load_comes_back_with_all_that_was_acknowledged(two: ProcessesBroker) -> None:
    writing = two.begin_writing(0, partitions=PARTITIONS)
    for number in (1, 2, 1):
        writing.write(2_000)
        writing.await_first()
        killed = two.kill_child(number)
        writing.write(2_000)
        two.await_restart(number, killed=killed)
    writing.finish()
    writing.check()


def test_transactions_over_all_brokers_are_whole_when_one_of_them_is_killed(two: ProcessesBroker) -> None:
    topic = two.create_topic(partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": two.bootstrap_servers, "transactional.id": fresh_name("id"), "log_level": 0})
    producer.init_transactions(60)
    for first, is_committed in ((0, True), (100, False), (200, True)):
        producer.begin_transaction()
        for number in range(first, first + 100):
            producer.produce(topic, str(number), partition=number % PARTITIONS)
        producer.flush(60)
        killed = two.kill_child(1 + first // 100 % 2)
        if is_committed:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
        two.await_restart(1 + first // 100 % 2, killed=killed)
    expected = Counter([*range(100), *range(200, 300)])
    found: Counter[int] = Counter()
    with closing(
        Consumer({"bootstrap.servers": two.bootstrap_servers, "group.id": "none", "isolation.level": "read_committed", "log_level": 0})
    ) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

        def has_all() -> bool:
            found.update(int(message.value() or b"") for message in consumer.consume(500, timeout=0.2) if message.error() is None)
            return sum(found.values()) >= sum(expected.values())

        wait_until(has_all, "what was committed", deadline_s=60)
    assert found == expected


def test_partitions_move_between_processes_that_are_killed_meanwhile(two: ProcessesBroker) -> None:
    """The one that gives a partition away, and the one that gets it; the first of them is also the controller at times."""
    writing = two.begin_writing(0, partitions=PARTITIONS)
    with Cluster(two.bootstrap_servers) as client:
        admin = ReassignmentAdmin(client, timeout_s=60)
        for target, victim in ((1, 2), (2, 1), (1, 1), (2, 2)):
            writing.write(2_000)
            writing.await_first()
            assert admin.alter({Place(writing.topic, number): (target,) for number in range(PARTITIONS)}) == {}
            killed = two.kill_child(victim)
            writing.write(2_000)
            two.await_restart(victim, killed=killed)
            wait_until(lambda: not admin.under_way(), "all have arrived", deadline_s=60)
            two.await_leaders(writing.topic, {target})
    writing.finish()
    writing.check()


def test_tests_have_several_brokers_too(tmp_path: Path) -> None:
    with Broker(data=tmp_path, processes=2) as brokers:
        brokers.create_topic("clicks", partitions=PARTITIONS)
        brokers.produce("clicks", *(str(number) for number in range(8)))
        with brokers.down():
            pass
        assert len(brokers.consume("clicks", 8, timeout_s=60)) == 8
        assert len(AdminClient({"bootstrap.servers": brokers.bootstrap_servers}).list_topics(timeout=60).brokers) == 2
        with pytest.raises(UsageError, match="processes of their own"):
            brokers.jump(timedelta(hours=1))
    with Broker(data=tmp_path) as alone:
        assert len(alone.consume("clicks", 8)) == 8


def test_brokers_reach_each_other_where_clients_connect_from_outside(tmp_path: Path) -> None:
    """As in a container: what is advertised leads nowhere from inside."""
    broker = ProcessesBroker(tmp_path)
    broker.port, broker.advertised_port = free_ports(3), free_ports(3)
    broker.start(deadline_s=120)
    for number in (1, 2):
        with Connection((broker.host, broker.port + number), timeout_s=60) as connection:
            create_assigned_topic(connection, [1], [2])
    broker.kill()


def test_a_clean_stop_stops_all_and_another_number_of_processes_starts_on_the_same_data(tmp_path: Path) -> None:
    broker = ProcessesBroker(tmp_path, processes=2)
    broker.start(deadline_s=120)
    writing = broker.begin_writing(400, partitions=PARTITIONS)
    writing.finish()
    children = broker.children()
    assert broker.stop() == 0
    assert all(is_gone(pid) for pid in children.values())
    for processes in (3, 0, 2):
        broker.processes = processes
        broker.start(deadline_s=120)
        # The ready line waits for this, but not for ever.
        expected = {frozenset(range(1, processes + 1)) or frozenset({1})}
        wait_until(lambda expected=expected: leaders_by_all(broker, writing.topic) == expected, "all brokers know all leaders")  # type: ignore[misc]
        writing.check()
        assert broker.stop() == 0
        assert "recover" not in broker.output
        found = {path.name for path in broker.data.iterdir() if path.name.startswith("process.")}
        assert found == {f"process.{number}" for number in range(1, processes + 1)}


def leaders_by_all(broker: ProcessesBroker, topic: str) -> set[frozenset[int]]:
    """Who leads the partitions of a topic, by what each of the brokers says."""
    places = [address for name, address in broker.ready_line.items() if name.startswith("broker")]
    found = set()
    for host, _, port in (place.rpartition(":") for place in places):
        with Connection((host, int(port)), timeout_s=60) as connection:
            [answer] = connection.ask(METADATA, 12, {"topics": [{"name": topic}]}).topics
            found.add(frozenset(partition.leader_id for partition in answer.partitions))
    return found


class WithoutStderr(ProcessesBroker):
    """As some start what is to run in the background."""

    def command(self) -> list[str]:
        return ["sh", "-c", 'exec "$@" 2>&-', "sh", *super().command()]


def test_the_brokers_start_where_stderr_is_closed(tmp_path: Path) -> None:
    broker = WithoutStderr(tmp_path)
    broker.start(deadline_s=120)
    assert set(broker.children()) == {1, 2}
    assert broker.stop() == 0


def test_the_brokers_end_when_their_parent_is_killed_and_the_next_start_has_everything(tmp_path: Path) -> None:
    broker = ProcessesBroker(tmp_path, processes=2)
    broker.start(deadline_s=120)
    writing = broker.begin_writing(2_000, partitions=PARTITIONS)
    writing.await_first()
    children = broker.children()
    # One that was just started again does not know yet that its parent is gone.
    broker.kill_child(2)
    broker.kill()
    writing.write(100)
    broker.processes = 3
    broker.start(deadline_s=120)
    assert all(is_gone(pid) for pid in children.values())
    writing.finish()
    writing.check()
    broker.kill()
