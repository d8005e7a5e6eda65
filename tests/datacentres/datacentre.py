"""A datacentre on this machine: brokers behind proxies, and a coordination of their own as a process of its own.

Its kind says what the brokers are: Millstream on a real ZooKeeper (`zookeeper`) or on ours (`embedded`), or Apache Kafka (`kafka`), whose
coordination is inside of it.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.brokers import Broker
from tests.cluster.brokers import Brokers, KafkaBrokers, MillstreamBrokers, NotHealthy, Watcher, broker_name
from tests.cluster.faults.network import GOOD, Condition, Link, Network
from tests.cluster.faults.reaper import Reaper
from tests.cluster.server_process import ServerProcess
from tests.connection import CREATE_TOPICS, LIST_OFFSETS, ConnectionEnded
from tests.mirror.mirror_process import batches_of, copied
from tests.topics import LATEST
from tests.waiting import wait_until

PARTITIONS = 3
SESSION_TIMEOUT_MS = 6_000
BACK_S = 120.0
"""How long a broker or a partition may take to come back on a busy machine."""
_CREATED = {0, 36}
_MIRROR = "mirror"


class Datacentre:
    """A context manager: everything in it ends with it."""

    def __init__(self, directory: Path, reaper: Reaper, *, kind: str, brokers: int = 1) -> None:
        self.kind = kind
        self.is_kafka = kind == "kafka"
        self.size = brokers
        self._directory = directory
        self._reaper = reaper
        self._stack = ExitStack()
        self._zookeeper: ServerProcess | None = None
        self.brokers: Brokers[Broker]

    def __enter__(self) -> Self:
        with self._stack as stack:
            self._network = Network()
            stack.callback(self._network.close)
            watchers: list[Watcher] = [self._reaper, self._network]
            if self.is_kafka:
                self.brokers = KafkaBrokers(
                    self._directory,
                    self._options(),
                    count=self.size,
                    session_timeout_ms=SESSION_TIMEOUT_MS,
                    proxies=self._network,
                    watchers=watchers,
                )
            else:
                self._zookeeper = self._start_zookeeper(stack)
                self.brokers = own = MillstreamBrokers(
                    self._directory,
                    self._options(),
                    zookeeper=self.coordination,
                    count=self.size,
                    session_timeout_ms=SESSION_TIMEOUT_MS,
                    proxies=self._network,
                    watchers=watchers,
                )
                for node in own.nodes.values():
                    node.flags.append("--no-audit")  # the auditor of this place audits both clusters
            stack.enter_context(self.brokers)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: at the proxies."""
        return self.brokers.bootstrap_servers

    @property
    def coordination(self) -> str:
        """Where consumers of the paper connect."""
        assert self._zookeeper is not None, "Apache Kafka 4 knows no ZooKeeper"
        return f"{self._zookeeper.address}/{self._directory.name}"

    # --- topics

    def create(self, *topics: str) -> None:
        """Topics with as many replicas as there are brokers, ready to be written to."""
        configs = [{"name": "min.insync.replicas", "value": str(self._in_sync)}]
        wanted = {"num_partitions": PARTITIONS, "replication_factor": self.size, "configs": configs}
        answer = self.brokers.ask(CREATE_TOPICS, 7, {"topics": [{"name": name, **wanted} for name in topics], "timeout_ms": 30_000})
        assert {topic.error_code for topic in answer.topics} <= _CREATED, answer
        self.brokers.await_healthy(topics, deadline_s=BACK_S)
        for topic in topics:
            self.await_ends(topic, dict.fromkeys(range(PARTITIONS), 0))

    def ends(self, topic: str) -> dict[int, int]:
        """The high watermark of each partition; without those that cannot be asked at the moment."""
        try:
            leaders = {partition: known.leader for partition, known in self.brokers.metadata(topic).items()}
            found = {partition: self._end(topic, partition, leader) for partition, leader in leaders.items()}
        except (OSError, NotHealthy, ConnectionEnded):
            return {}
        return {partition: end for partition, end in found.items() if end >= 0}

    def total(self, topic: str) -> int:
        """How many messages there are in all partitions; 0 while one of them cannot be asked."""
        ends = self.ends(topic)
        return sum(ends.values()) if len(ends) == PARTITIONS else 0

    def await_ends(self, topic: str, ends: dict[int, int]) -> None:
        """Until each partition ends there."""
        wait_until(lambda: self.ends(topic) == ends, f"{topic} ends at {ends}, not at {self.ends(topic)}", deadline_s=BACK_S)

    def leader(self, topic: str, partition: int) -> Broker:
        """The broker that leads a partition."""
        return self.brokers.nodes[self.brokers.metadata(topic)[partition].leader]

    def content(self, topic: str) -> dict[int, list[tuple[int, bytes]]]:
        """The batches of each partition: their offsets, and their bytes from the CRC on."""
        return {partition: copied(batches_of(self.leader(topic, partition), topic, partition)) for partition in range(PARTITIONS)}

    def segment_files(self, topic: str, partition: int) -> Iterable[Path]:
        """The first segment of each replica."""
        places = [node.partition_directory(topic, partition) for node in self.brokers.nodes.values()]
        return [place / f"{0:020}.log" for place in places]

    # --- faults

    def kill_broker(self) -> None:
        """`kill -9` of the first, and start it again."""
        self.brokers.kill(1)
        self.brokers.start(1)

    def knows(self, pid: int) -> None:
        """This process is the mirror: what it connects to is the link between the datacentres."""
        self._network.began(pid, _MIRROR)

    def cut_link(self) -> None:
        """Reset the mirror's connections to this place, and every new one."""
        self._network.set(self._links(), Condition(is_cut=True))

    def heal_link(self) -> None:
        """The link is there again."""
        self._network.set(self._links(), GOOD)

    def stop_zookeeper(self) -> None:
        """`kill -9`."""
        assert self._zookeeper is not None
        self._reaper.forget(self._zookeeper.pid)
        self._zookeeper.kill()

    def start_zookeeper(self) -> None:
        """On the same data."""
        assert self._zookeeper is not None
        self._zookeeper.start()
        self._reaper.watch(self._zookeeper.pid)

    def _links(self) -> list[Link]:
        return [Link(_MIRROR, broker_name(node_id)) for node_id in self.brokers.nodes]

    def _start_zookeeper(self, stack: ExitStack) -> ServerProcess:
        place = self._directory / "coordination"
        (place / "data").mkdir(parents=True)
        server = ServerProcess(self.kind, place)
        stack.callback(server.kill)
        server.start()
        self._reaper.watch(server.pid)
        return server

    @property
    def _in_sync(self) -> int:
        return min(2, self.size)

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "min.insync.replicas": self._in_sync,
            "offsets.topic.num.partitions": 3,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "false",
        }
        if self.is_kafka:
            options |= dict.fromkeys(("transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr"), self._in_sync)
        return options

    def _end(self, topic: str, partition: int, leader: int) -> int:
        wanted = {"partition_index": partition, "timestamp": LATEST}
        fields = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [wanted]}]}
        answer = self.brokers.ask(LIST_OFFSETS, 7, fields, asked=leader).topics[0].partitions[0]
        return -1 if answer.error_code else int(answer.offset)
