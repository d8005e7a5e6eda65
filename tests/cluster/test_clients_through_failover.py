"""Real clients, with their default settings, at work while leaders, coordinators and the controller change.

They all work at once on one cluster, each producer in a topic of its own. After each change everybody must get on in every partition; no
client may have reported an error, and at the end nothing acknowledged is missing, nothing of an idempotent producer is there twice or out
of order, and no committed offset has gone back. How long they stood still is printed, not asserted.
"""

import gc
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.brokers import IS_KAFKA, Broker
from tests.cluster.brokers import Brokers, MillstreamBrokers
from tests.cluster.failover.aiokafka_work import AiokafkaConsumer, AiokafkaProducer
from tests.cluster.failover.confluent_work import ConfluentConsumer, ConfluentProducer
from tests.cluster.failover.java_work import JavaConsumer, JavaProducer, JavaWorker
from tests.cluster.failover.kafka_python_work import KafkaPythonConsumer, KafkaPythonProducer
from tests.cluster.failover.metadata_watch import MetadataWatch
from tests.cluster.failover.paper_work import PaperConsumer, PaperProducer
from tests.cluster.failover.three_brokers import three_brokers
from tests.cluster.failover.worker import Worker
from tests.cluster.faults.groups import read_back
from tests.cluster.faults.reaper import Reaper
from tests.group_offsets import OFFSET_FETCH
from tests.java import is_java_there, run_tool
from tests.ports import free_port
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.timeout(400),
    # kafka-python leaves sockets that could not connect to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

PROGRESS = 3
PROGRESS_DEADLINE_S = 60.0
LOOKS_EVERY_MS = 1000
"""Of members of groups whose leader may be elected while the topic is away: they give out nothing then, and by default look again after
five minutes."""
TOPICS = (
    "confluent",
    "confluent-idempotent",
    "confluent-one",
    "kafka-python",
    "kafka-python-one",
    "aiokafka",
    "aiokafka-idempotent",
    "paper",
)
JAVA_TOPICS = ("java", "java-one")
GROUPS = {"confluent-classic": "confluent", "confluent-consumer": "confluent-idempotent", "kafka-python": "kafka-python"}
GROUPS |= {"aiokafka": "aiokafka-idempotent"}
JAVA_GROUPS = {"java-classic": "java", "java-consumer": "java"}
"""The groups and what they read."""


@dataclass
class Bench:
    """The cluster, its workers, and what its groups had committed when it was last looked at."""

    cluster: Brokers[Broker]
    topics: tuple[str, ...]
    groups: dict[str, str]
    workers: list[Worker] = field(default_factory=list)
    committed: dict[tuple[str, int], int] = field(default_factory=dict)

    def admin(self) -> AdminClient:
        """A new one each time: librdkafka's goes on looking for the controller that it once knew, also when that is dead."""
        return AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})

    def create_all(self, *topics: str) -> None:
        """The same for several."""
        admin = self.admin()
        for created in admin.create_topics([NewTopic(topic, 3, 3) for topic in topics]).values():
            created.result()
        self.cluster.await_healthy(topics, deadline_s=60)

    def create(self, topic: str) -> str:
        """Create a topic of three partitions on all brokers, and wait until all know it."""
        self.create_all(topic)
        return topic

    def await_progress(self) -> None:
        """Until everybody has made some steps in every partition, or has failed."""
        await_progress(self.workers)

    def check_commits(self) -> None:
        """No group has gone back."""
        for group, topic in self.groups.items():
            for partition, offset in self._committed(group, topic).items():
                assert offset >= self.committed.get((group, partition), 0), f"{group} went back in {topic}-{partition}"
                self.committed[group, partition] = offset

    def _committed(self, group: str, topic: str) -> dict[int, int]:
        """Asked without a client: librdkafka's AdminClient dies of NOT_COORDINATOR here (confluentinc/librdkafka#5040)."""
        asked = {"groups": [{"group_id": group, "topics": [{"name": topic, "partition_indexes": [0, 1, 2]}]}], "require_stable": False}

        def answer() -> Any:
            answer = self.cluster.ask(OFFSET_FETCH, 8, asked, asked=self.cluster.coordinator(group)).groups[0]
            return None if answer.error_code else answer

        return {one.partition_index: one.committed_offset for one in wait_until(answer, f"offsets of {group}").topics[0].partitions}

    def through(self, change: Callable[[], None]) -> None:
        """Make a change while everybody works."""
        began = time.time()
        change()
        self.await_progress()
        self.cluster.await_healthy(self.topics, deadline_s=60)
        self.await_progress()
        self.check_commits()
        stalls = [f"{worker.name} {worker.longest_stall(began):.1f}" for worker in self.workers]
        print(f"\n{change.__name__}: {time.time() - began:.1f} s; longest stalls: {', '.join(stalls)}")
        assert {worker.name: worker.errors for worker in self.workers if worker.errors} == {}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("clients")
    with ExitStack() as stack:
        reaper = Reaper()
        stack.callback(reaper.close)
        cluster = stack.enter_context(three_brokers(directory, reaper))
        topics = TOPICS + (JAVA_TOPICS if is_java_there() else ())
        bench = Bench(cluster, topics, GROUPS | (JAVA_GROUPS if is_java_there() else {}))
        bench.create_all(*topics)
        for worker in _workers(cluster, directory):
            worker.start()
            if isinstance(worker, JavaWorker):
                reaper.watch(worker.pid)
            bench.workers.append(worker)
            stack.callback(worker.end)
        bench.await_progress()
        yield bench
    gc.collect()


def _workers(cluster: Brokers[Broker], directory: Path) -> Iterator[Worker]:
    servers = cluster.bootstrap_servers
    yield ConfluentProducer("confluent", "confluent", servers)
    yield ConfluentProducer("confluent, idempotent", "confluent-idempotent", servers, enable_idempotence=True)
    yield ConfluentProducer("confluent, acks=1", "confluent-one", servers, acks="1")
    yield ConfluentConsumer("confluent, classic group", "confluent", servers, group="confluent-classic")
    yield ConfluentConsumer(
        "confluent, consumer group", "confluent-idempotent", servers, group="confluent-consumer", group_protocol="consumer"
    )
    yield ConfluentConsumer("confluent, assigned", "confluent-one", servers, group=None)
    yield KafkaPythonProducer("kafka-python", "kafka-python", servers)
    yield KafkaPythonProducer("kafka-python, acks=1", "kafka-python-one", servers, acks=1, enable_idempotence=False)
    yield KafkaPythonConsumer("kafka-python, group", "kafka-python", servers, group="kafka-python")
    yield KafkaPythonConsumer("kafka-python, assigned", "kafka-python-one", servers, group=None)
    yield AiokafkaProducer("aiokafka", "aiokafka", servers)
    yield AiokafkaProducer("aiokafka, idempotent", "aiokafka-idempotent", servers, enable_idempotence=True)
    yield AiokafkaConsumer("aiokafka, group", "aiokafka-idempotent", servers, group="aiokafka")
    yield AiokafkaConsumer("aiokafka, assigned", "aiokafka", servers, group=None)
    yield PaperProducer("paper", "paper", servers)
    if isinstance(cluster, MillstreamBrokers):
        yield PaperConsumer("paper, group", "paper", cluster.zookeeper, group="paper")
    yield MetadataWatch("metadata", "confluent", cluster)
    if is_java_there():
        yield JavaProducer("java", "java", servers, directory)
        yield JavaProducer("java, acks=1", "java-one", servers, directory, acks="1", enable_idempotence="false")
        yield JavaConsumer("java, classic group", "java", servers, directory, group="java-classic", protocol="classic")
        yield JavaConsumer("java, consumer group", "java", servers, directory, group="java-consumer", protocol="consumer")


def await_progress(workers: Sequence[Worker], *, may_fail: bool = True) -> None:
    """Until each of them has made some steps in every partition, or has failed, where that ends a test."""
    before = [worker.progress() for worker in workers]
    for worker, then in zip(workers, before, strict=True):

        def has_moved(worker: Worker = worker, then: Counter[int] = then) -> bool:
            now = worker.progress()
            return (may_fail and bool(worker.errors)) or all(now[partition] >= then[partition] + PROGRESS for partition in range(3))

        wait_until(has_moved, f"{worker.name} gets on from {then}", deadline_s=PROGRESS_DEADLINE_S)


@contextmanager
def at_work(workers: Sequence[Worker]) -> Iterator[None]:
    """They work while the block does."""
    with ExitStack() as stack:
        for worker in workers:
            worker.start()
            stack.callback(worker.end)
        yield


def leader(bench: Bench) -> int:
    return bench.cluster.metadata(bench.topics[0])[0].leader


def kill_and_restart(bench: Bench, node_id: int) -> None:
    bench.cluster.kill(node_id)
    bench.await_progress()
    bench.cluster.start(node_id)


def test_leader_is_killed(bench: Bench) -> None:
    def leader_is_killed() -> None:
        kill_and_restart(bench, leader(bench))

    bench.through(leader_is_killed)


def test_leader_is_stopped(bench: Bench) -> None:
    def leader_is_stopped() -> None:
        stopped = leader(bench)
        bench.cluster.stop(stopped)
        bench.await_progress()
        bench.cluster.start(stopped)

    bench.through(leader_is_stopped)


def test_preferred_leaders_are_elected(bench: Bench) -> None:
    def preferred_leaders_are_elected() -> None:
        partitions = [TopicPartition(topic, partition) for topic in bench.topics for partition in range(3)]
        admin = bench.admin()
        results = admin.elect_leaders(ElectionType.PREFERRED, partitions).result()
        refused = {
            str(partition): error for partition, error in results.items() if error is not None and error.name() != "ELECTION_NOT_NEEDED"
        }
        assert refused == {}

    bench.through(preferred_leaders_are_elected)


def test_controller_is_killed(bench: Bench) -> None:
    def controller_is_killed() -> None:
        kill_and_restart(bench, bench.cluster.controller())

    bench.through(controller_is_killed)


def test_coordinator_is_killed(bench: Bench) -> None:
    def coordinator_is_killed() -> None:
        kill_and_restart(bench, bench.cluster.coordinator("confluent-classic"))

    bench.through(coordinator_is_killed)


def test_all_are_restarted_one_after_the_other(bench: Bench) -> None:
    def rolling_restart() -> None:
        for node_id in bench.cluster.nodes:
            bench.cluster.stop(node_id)
            bench.cluster.start(node_id)
            bench.cluster.await_healthy(bench.topics, deadline_s=60)

    bench.through(rolling_restart)


@pytest.mark.skipif(IS_KAFKA, reason="the ports of Kafka are written down when it is formatted")
def test_all_come_back_on_other_ports_one_after_the_other(bench: Bench) -> None:
    """Afterwards none of the addresses that the clients were given is good for anything."""
    cluster = bench.cluster

    def other_ports() -> None:
        for node_id in bench.cluster.nodes:
            cluster.stop(node_id)
            cluster.nodes[node_id].port = free_port()
            cluster.start(node_id)
            cluster.await_healthy(bench.topics, deadline_s=60)
            bench.await_progress()

    bench.through(other_ports)


def test_one_living_broker_in_the_list_is_enough(bench: Bench) -> None:
    with ExitStack() as stack:
        gone = [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(2)]
    servers = ",".join(f"127.0.0.1:{port}" for port in (*gone, bench.cluster.nodes[3].port))
    topic = bench.create("one-of-three")
    workers = [
        ConfluentProducer("confluent", topic, servers),
        ConfluentConsumer("confluent, group", topic, servers, group="one-of-three"),
        KafkaPythonProducer("kafka-python", topic, servers),
        KafkaPythonConsumer("kafka-python, group", topic, servers, group="one-of-three-kafka-python"),
        AiokafkaProducer("aiokafka", topic, servers),
        AiokafkaConsumer("aiokafka, group", topic, servers, group="one-of-three-aiokafka"),
    ]
    with at_work(workers):
        await_progress(workers)
    assert {worker.name: worker.errors for worker in workers if worker.errors} == {}


def test_newcomers_while_the_controller_is_gone(bench: Bench) -> None:
    """Clients that begin before anybody has noticed that the controller, which led a third of everything, is dead.

    kafka-python's consumer is not among them: it raises that a connection was refused, if it turns to the dead one first.
    """
    servers, topic = bench.cluster.bootstrap_servers, bench.create("newcomers")
    workers: list[Worker] = [
        ConfluentProducer("confluent", topic, servers, enable_idempotence=True),
        ConfluentConsumer("confluent, classic group", topic, servers, group="newcomers-classic"),
        ConfluentConsumer("confluent, consumer group", topic, servers, group="newcomers-consumer", group_protocol="consumer"),
        KafkaPythonProducer("kafka-python", topic, servers),
        AiokafkaProducer("aiokafka", topic, servers, enable_idempotence=True),
        AiokafkaConsumer("aiokafka, group", topic, servers, group="newcomers-aiokafka"),
    ]

    def newcomers() -> None:
        killed = bench.cluster.controller()
        led = {number: partition.leader for number, partition in bench.cluster.metadata(topic).items()}
        bench.cluster.kill(killed)
        with at_work(workers):
            if is_java_there():
                _ask_with_java(servers, topic, next(number for number, leader in led.items() if leader != killed))
            await_progress(workers)
            bench.cluster.start(killed)
            await_progress(workers)

    bench.through(newcomers)
    assert {worker.name: worker.errors for worker in workers if worker.errors} == {}


def _ask_with_java(servers: str, topic: str, partition: int) -> None:
    """Java's admin client, by Kafka's own tools, all at once. The preferred leader of that partition is alive, and leads it."""
    server, tools = ["--bootstrap-server", servers], "org.apache.kafka.tools"
    with ThreadPoolExecutor() as threads:
        asked = [
            threads.submit(run_tool, f"{tools}.{tool}", *server, *arguments)
            for tool, arguments in (
                ("TopicCommand", ["--create", "--topic", f"{topic}-java", "--partitions", "3", "--replication-factor", "2"]),
                ("TopicCommand", ["--describe", "--topic", topic]),
                ("LeaderElectionCommand", ["--election-type", "preferred", "--topic", topic, "--partition", str(partition)]),
                ("GetOffsetShell", ["--topic", topic]),
                ("consumer.group.ConsumerGroupCommand", ["--describe", "--group", "confluent-classic"]),
            )
        ]
        for answer in asked:
            answer.result()
    run_tool(f"{tools}.TopicCommand", *server, "--delete", "--topic", f"{topic}-java")


def test_topic_is_deleted_and_created_again(bench: Bench) -> None:
    """A client may say meanwhile that it does not know the topic; then it goes on with the new one."""
    servers, topic = bench.cluster.bootstrap_servers, bench.create("again")
    workers: list[Worker] = [
        ConfluentProducer("confluent", topic, servers, enable_idempotence=True),
        ConfluentConsumer("confluent, classic group", topic, servers, group="again-classic"),
        ConfluentConsumer("confluent, consumer group", topic, servers, group="again-consumer", group_protocol="consumer"),
        KafkaPythonProducer("kafka-python", topic, servers),
        KafkaPythonConsumer("kafka-python, group", topic, servers, group="again-kafka-python", metadata_max_age_ms=LOOKS_EVERY_MS),
        AiokafkaProducer("aiokafka", topic, servers),
        AiokafkaConsumer("aiokafka, group", topic, servers, group="again-aiokafka", metadata_max_age_ms=LOOKS_EVERY_MS),
    ]
    with at_work(workers):
        await_progress(workers)
        began = time.time()
        admin = bench.admin()
        admin.delete_topics([topic])[topic].result()
        bench.create(topic)
        await_progress(workers, may_fail=False)
        stalls = [f"{worker.name} {worker.longest_stall(began):.1f}" for worker in workers]
        print(f"\ntopic is deleted and created again: longest stalls: {', '.join(stalls)}")
        print({worker.name: Counter(worker.errors) for worker in workers if worker.errors})


def test_nothing_was_lost_or_doubled_and_order_was_kept(bench: Bench) -> None:
    """The last one: it ends the producers."""
    producers = [worker for worker in bench.workers if worker.is_producer]
    for worker in producers:
        worker.end()
    for worker in producers:
        assert worker.errors == [], worker.name
        stored = read_back(bench.cluster.bootstrap_servers, worker.topic, range(3), deadline_s=60)
        values = {partition: [int(record.value or b"") for record in records] for partition, records in stored.items()}
        if worker.keeps_all:
            missing = {step.value for step in worker.steps} - {value for numbers in values.values() for value in numbers}
            assert missing == set(), worker.name
        if worker.is_idempotent:
            assert values == {partition: sorted(set(numbers)) for partition, numbers in values.items()}, worker.name
