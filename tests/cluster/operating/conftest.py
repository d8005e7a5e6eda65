"""Three brokers for all tests of operating a cluster; Apache Kafka, if the environment says so."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from millstream.client.cluster import Cluster
from tests.brokers import IS_KAFKA
from tests.cluster.brokers import Brokers, KafkaBrokers, MillstreamBrokers
from tests.unit.cli.conftest import Millstream, Outcome, millstream

__all__ = ["millstream"]

SESSION_TIMEOUT_MS = 60_000
"""For so long a broker that was killed counts as there: a move to it waits."""
OPTIONS = {"auto.leader.rebalance.enable": "false", "controlled.shutdown.enable": "false"}


class Operator:
    """Somebody who operates the cluster with `millstream`."""

    def __init__(self, brokers: Brokers[Any], run: Millstream) -> None:
        self.brokers = brokers
        self._run = run

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Outcome:
        """Run a command of `millstream` for this cluster."""
        return self._run(*arguments, "-b", self.brokers.bootstrap_servers, stdin=stdin)

    def do(self, *arguments: str, stdin: bytes = b"") -> str:
        """The same, which has to succeed; returns what it printed."""
        outcome = self(*arguments, stdin=stdin)
        assert outcome.code == 0, outcome.out + outcome.err
        return outcome.out

    def reassigning(self, *arguments: str) -> "subprocess.Popen[str]":
        """Begin a `cluster reassign` in a process of its own."""
        command = [sys.executable, "-m", "millstream.cli.main", "cluster", "reassign", *arguments, "-b", self.brokers.bootstrap_servers]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def make_topic(self, name: str, replicas: list[list[int]]) -> None:
        """A topic whose partitions have these replicas."""
        self.do("topic", "create", name, "-p", str(len(replicas)), "-r", str(len(replicas[0])))
        self.place(name, replicas)

    def place(self, name: str, replicas: list[list[int]]) -> None:
        """Move a topic there, by a plan in a file."""
        path = self.brokers.nodes[1].directory / "plan.json"
        path.write_text(plan_of(name, replicas))
        self.do("cluster", "reassign", "--plan", str(path), "--yes")
        assert self.replicas(name) == replicas

    @contextmanager
    def one_killed(self) -> Iterator[int]:
        """A broker that keeps no znodes and is not the controller is killed; the cluster has not noticed yet."""
        victim = next(node_id for node_id in (3, 2) if node_id != self.brokers.controller())
        self.brokers.kill(victim)
        try:
            yield victim
        finally:
            self.brokers.start(victim)
            self.brokers.await_members()

    def replicas(self, name: str) -> list[list[int]]:
        """The replicas of each partition."""
        with Cluster(self.brokers.bootstrap_servers) as cluster:
            return [list(partition.replicas) for partition in cluster.topic(name).partitions.values()]

    def leaders(self, name: str) -> list[int]:
        """The leader of each partition."""
        with Cluster(self.brokers.bootstrap_servers) as cluster:
            return [partition.leader for partition in cluster.topic(name).partitions.values()]


def plan_of(topic: str, replicas: list[list[int]]) -> str:
    """A plan in Kafka's format."""
    partitions = [{"topic": topic, "partition": number, "replicas": ids} for number, ids in enumerate(replicas)]
    return json.dumps({"version": 1, "partitions": partitions})


@pytest.fixture(scope="session")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers[Any]]:
    directory: Path = tmp_path_factory.mktemp("operating")
    kind = KafkaBrokers if IS_KAFKA else MillstreamBrokers
    with kind(directory, OPTIONS, session_timeout_ms=SESSION_TIMEOUT_MS) as brokers:
        yield brokers


@pytest.fixture(scope="session")
def brokers_with_disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers[Any]]:
    """Two brokers with two data directories each."""
    directory: Path = tmp_path_factory.mktemp("disks")
    kind = KafkaBrokers if IS_KAFKA else MillstreamBrokers
    brokers = kind(directory, OPTIONS, count=2, session_timeout_ms=SESSION_TIMEOUT_MS)
    for node in brokers.nodes.values():
        node.more_data = [node.directory / "more"]
    with brokers:
        yield brokers


@pytest.fixture
def disk_operator(brokers_with_disks: Brokers[Any], millstream: Millstream) -> Operator:
    return Operator(brokers_with_disks, millstream)


@pytest.fixture
def operator(three_brokers: Brokers[Any], millstream: Millstream) -> Operator:
    return Operator(three_brokers, millstream)
