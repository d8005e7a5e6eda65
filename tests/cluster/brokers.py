"""The brokers of one cluster, each a process: started together or one by one, killed, stopped, paused, asked what they know.

`MillstreamBrokers` and `KafkaBrokers` know how theirs find each other; everything else is the same. Tests, the rig of the faults, the
benchmarks and `scripts/cluster` start several brokers with these and nothing else. Where the znodes of Millstream are is the business of
who starts it: a real ZooKeeper, a tree in the test, or, if nothing is said, the first broker.

With `proxies`, clients and other brokers reach a broker (and Kafka's controllers each other) through a proxy; what is asked here goes
past it.
"""

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from tests.brokers import Broker, KafkaBroker, MillstreamBroker, Options
from tests.connection import DESCRIBE_QUORUM, FIND_COORDINATOR, METADATA, Connection, ConnectionEnded
from tests.java import SMALL_MACHINE
from tests.ports import free_port

B_co = TypeVar("B_co", bound=Broker, covariant=True)
START_DEADLINE_S = 180.0
MIN_IN_SYNC = 2
_ASK_TIMEOUT_S = 5.0
_POLL_S = 0.1


class NotHealthy(Exception):
    """The cluster did not come back in time; the text says what is missing."""


class Watcher(Protocol):
    """Wants to know which process is which broker."""

    def began(self, pid: int, name: str) -> None:
        """This process is the broker of that name."""

    def ended(self, pid: int) -> None:
        """The process is gone."""


class Proxies(Protocol):
    """Puts a proxy before a server."""

    def add(self, name: str, port: int) -> int:
        """Where to connect to reach the server that listens on that port of the loopback."""


@dataclass(frozen=True)
class PartitionMetadata:
    """What one broker says about a partition."""

    leader: int
    in_sync: frozenset[int]


class Brokers(ABC, Generic[B_co]):
    """All of one cluster, by node id. A context manager: entered when all know each other, and none outlives it."""

    def __init__(self, nodes: Mapping[int, B_co], *, proxies: Proxies | None = None, watchers: Sequence[Watcher] = ()) -> None:
        self.nodes = nodes
        self._watchers = watchers
        for node_id, node in nodes.items():
            node.directory.mkdir(parents=True, exist_ok=True)
            node.port = free_port()
            if proxies is not None:
                node.advertised_port = proxies.add(broker_name(node_id), node.port)

    def __enter__(self) -> Self:
        try:
            self.start(*(node_id for node_id, node in self.nodes.items() if not node.is_running))
            self.await_members()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{node.host}:{node.advertised_port or node.port}" for node in self.nodes.values())

    def start(self, *node_ids: int) -> None:
        """Start these together and wait until all serve clients."""
        self.launch(*node_ids)
        self.await_ready(*node_ids)

    def launch(self, *node_ids: int) -> None:
        """Start these, and do not wait."""
        for node_id in node_ids:
            node = self.nodes[node_id]
            node.launch()
            for watcher in self._watchers:
                watcher.began(node.pid, broker_name(node_id))

    def await_ready(self, *node_ids: int) -> None:
        """Until all of them serve clients."""
        with ThreadPoolExecutor() as threads:
            waiting = [threads.submit(self.nodes[node_id].await_ready, deadline_s=START_DEADLINE_S) for node_id in node_ids]
            for ready in waiting:
                ready.result()

    def kill(self, *node_ids: int) -> None:
        """SIGKILL."""
        for node_id in node_ids:
            self._end(node_id, Broker.kill)

    def stop(self, *node_ids: int) -> None:
        """SIGTERM, and wait for the clean end."""
        for node_id in node_ids:
            self._end(node_id, Broker.stop)

    def close(self) -> None:
        """No broker runs any more, however it ends."""
        self.kill(*self.nodes)

    def pause(self, node_id: int) -> None:
        """SIGSTOP: it holds its connections and says nothing."""
        os.kill(self.nodes[node_id].pid, signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """SIGCONT."""
        os.kill(self.nodes[node_id].pid, signal.SIGCONT)

    @property
    def running_ids(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.is_running]

    def metadata(self, topic: str, *, asked: int | None = None) -> Mapping[int, PartitionMetadata]:
        """The partitions of a topic as that broker, or any that answers, sees them."""
        request = {"topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": False}
        answer = self.ask(METADATA, 12, request, asked=asked)
        return {
            partition.partition_index: PartitionMetadata(partition.leader_id, frozenset(partition.isr_nodes))
            for partition in answer.topics[0].partitions
        }

    def coordinator(self, group: str) -> int:
        """Who coordinates a group."""
        answer = self.ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [group]})
        return int(answer.coordinators[0].node_id)

    @abstractmethod
    def controller(self) -> int:
        """Who is the controller; -1 if there is none."""

    def ask(self, api_key: int, version: int, fields: Mapping[str, object], *, asked: int | None = None) -> Any:
        """One request to that broker or to the first that answers."""
        for node_id in self.nodes if asked is None else (asked,):
            if not self.nodes[node_id].is_running:
                continue
            try:
                with Connection(self.nodes[node_id].address, timeout_s=_ASK_TIMEOUT_S) as connection:
                    return connection.ask(api_key, version, fields)
            except (OSError, ConnectionEnded):
                continue
        raise NotHealthy(f"no answer from {'any broker' if asked is None else f'broker {asked}'}")

    def await_members(self) -> None:
        """Until every broker that runs knows all that run, and no other."""
        self._await(lambda: self._unknown(self.running_ids), deadline_s=START_DEADLINE_S)

    def await_healthy(self, topics: Iterable[str], *, deadline_s: float) -> None:
        """Until every broker says that every partition of these topics has a leader and all replicas in sync."""
        names = list(topics)
        self._await(lambda: self._not_in_sync(names), deadline_s=deadline_s)

    def _await(self, missing: Callable[[], str | None], *, deadline_s: float) -> None:
        end = time.monotonic() + deadline_s
        while True:
            try:
                reason = missing()
            except NotHealthy as error:
                reason = str(error)
            if reason is None:
                return
            if time.monotonic() > end:
                raise NotHealthy(f"not healthy after {deadline_s:g} s: {reason}")
            time.sleep(_POLL_S)

    def _unknown(self, running: list[int]) -> str | None:
        for node_id in running:
            known = sorted(broker.node_id for broker in self.ask(METADATA, 12, {"topics": []}, asked=node_id).brokers)
            if known != running:
                return f"broker {node_id} knows {known}, and {running} run"
        return None

    def _not_in_sync(self, topics: list[str]) -> str | None:
        for node_id in self.nodes:
            for topic in topics:
                partitions = self.metadata(topic, asked=node_id)
                if not partitions:
                    return f"broker {node_id} knows no partition of {topic}"
                for number, partition in partitions.items():
                    if partition.leader < 0 or len(partition.in_sync) < len(self.nodes):
                        in_sync = sorted(partition.in_sync)
                        return f"broker {node_id} says that {topic}-{number} is led by {partition.leader}, in sync on {in_sync}"
        return None

    def _end(self, node_id: int, how: Callable[[Broker], object]) -> None:
        node = self.nodes[node_id]
        if node.lives:
            pid = node.pid
            how(node)
            for watcher in self._watchers:
                watcher.ended(pid)


class MillstreamBrokers(Brokers[MillstreamBroker]):
    """Millstream, on the znodes at `zookeeper`, or else on those that the first broker keeps."""

    def __init__(
        self,
        directory: Path,
        options: Options,
        *,
        zookeeper: str = "",
        count: int = 3,
        session_timeout_ms: int | None = None,
        proxies: Proxies | None = None,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        self.zookeeper = zookeeper or f"127.0.0.1:{free_port()}"
        if session_timeout_ms is not None:
            options = {"zookeeper.session.timeout.ms": session_timeout_ms, **options}
        nodes = {
            node_id: MillstreamBroker(directory / broker_name(node_id), options, node_id=node_id, zookeeper=self.zookeeper)
            for node_id in range(1, count + 1)
        }
        super().__init__(nodes, proxies=proxies, watchers=watchers)
        self._waits_for_the_first = nodes[1].keeps_znodes = not zookeeper

    def launch(self, *node_ids: int) -> None:
        """The tree has to be there before the other brokers look for it."""
        if self._waits_for_the_first and 1 in node_ids:
            super().launch(1)
            self.await_ready(1)
            node_ids = tuple(node_id for node_id in node_ids if node_id != 1)
        super().launch(*node_ids)

    def controller(self) -> int:
        return int(self.ask(METADATA, 12, {"topics": []}).controller_id)


class KafkaBrokers(Brokers[KafkaBroker]):
    """Apache Kafka 4.2: each node is broker and controller. Its internal topics have a replica on every node."""

    def __init__(
        self,
        directory: Path,
        options: Options,
        *,
        count: int = 3,
        session_timeout_ms: int,
        proxies: Proxies | None = None,
        watchers: Sequence[Watcher] = (),
        jvm: Sequence[str] = SMALL_MACHINE,
    ) -> None:
        options = {**_replication_options(count, session_timeout_ms), **options}
        nodes = {
            node_id: KafkaBroker(directory / broker_name(node_id), options, node_id=node_id, jvm=jvm) for node_id in range(1, count + 1)
        }
        super().__init__(nodes, proxies=proxies, watchers=watchers)
        voters = []
        for node_id, node in nodes.items():
            node.controller_port = free_port()
            port = node.controller_port if proxies is None else proxies.add(controller_name(node_id), node.controller_port)
            voters.append(f"{node_id}@127.0.0.1:{port}")
        for node in nodes.values():
            node.voters = ",".join(voters)

    def launch(self, *node_ids: int) -> None:
        with ThreadPoolExecutor() as threads:
            for formatted in [threads.submit(self.nodes[node_id].format) for node_id in node_ids]:
                formatted.result()
        super().launch(*node_ids)

    def controller(self) -> int:
        """The leader of the metadata quorum; Metadata names any broker."""
        request = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
        answer = self.ask(DESCRIBE_QUORUM, 2, request)
        if answer.error_code != 0:
            raise NotHealthy(f"no controller: error {answer.error_code}")
        return int(answer.topics[0].partitions[0].leader_id)


def broker_name(node_id: int) -> str:
    """What a broker is called: in its directory, and on a network."""
    return f"broker-{node_id}"


def controller_name(node_id: int) -> str:
    """What the controller of a Kafka node is called on a network."""
    return f"controller-{node_id}"


def _replication_options(count: int, session_timeout_ms: int) -> dict[str, object]:
    return {
        "broker.session.timeout.ms": session_timeout_ms,
        "broker.heartbeat.interval.ms": min(2000, session_timeout_ms // 3),
        "default.replication.factor": count,
        "min.insync.replicas": MIN_IN_SYNC,
        "offsets.topic.replication.factor": count,
        "transaction.state.log.replication.factor": count,
        "transaction.state.log.min.isr": MIN_IN_SYNC,
        "share.coordinator.state.topic.replication.factor": count,
        "share.coordinator.state.topic.min.isr": MIN_IN_SYNC,
    }
