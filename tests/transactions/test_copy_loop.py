"""Consume, transform, produce, with the offsets in the transaction: the copy equals its source exactly and in order, whoever is killed."""

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.brokers import Broker, make_broker
from tests.cluster.brokers import Brokers
from tests.cluster.failover.three_brokers import three_brokers
from tests.cluster.faults.reaper import Reaper
from tests.topics import create_topic
from tests.transactions.copying import Copy, Feed
from tests.transactions.killed_process import KilledProcess

PARTITIONS = 3
SHORT_SESSIONS = {
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.min.session.timeout.ms": 6000,
    "group.consumer.heartbeat.interval.ms": 2000,
    "group.consumer.min.heartbeat.interval.ms": 2000,
}
"""Of members that are killed; what they had goes to others soon."""


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    broker = make_broker(tmp_path / "broker", SHORT_SESSIONS)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Brokers[Broker]]:
    reaper = Reaper()
    with closing(reaper), three_brokers(tmp_path, reaper) as brokers:
        yield brokers


@pytest.mark.timeout(400)
@pytest.mark.parametrize("rounds", [2, pytest.param(40, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_a_copy_equals_its_source_while_copier_and_broker_are_killed(own_broker: Broker, tmp_path: Path, rounds: int) -> None:
    source, target = (create_topic(own_broker, partitions=PARTITIONS) for _ in range(2))
    copy = Copy(own_broker.bootstrap_servers, source, target, PARTITIONS)
    with Feed(own_broker.bootstrap_servers, source) as feed, copier_of(copy, own_broker.bootstrap_servers, tmp_path) as copier:
        for _ in range(rounds):
            copy.await_progress(copier)
            copier.kill()
            copier.start()
            copy.await_progress(copier)
            own_broker.kill()
            own_broker.start()
        copy.await_progress(copier)
        feed.close()
        copy.check(feed.count, copier)
    assert copy.aborted() > 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rounds", [1, pytest.param(15, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_a_copy_equals_its_source_while_copier_and_brokers_of_a_cluster_are_killed(
    cluster: Brokers[Broker], tmp_path: Path, rounds: int
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    names = ["source", "target"]
    for created in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in names]).values():
        created.result()
    cluster.await_healthy(names, deadline_s=60)
    copy = Copy(cluster.bootstrap_servers, "source", "target", PARTITIONS)
    with Feed(cluster.bootstrap_servers, "source") as feed, copier_of(copy, cluster.bootstrap_servers, tmp_path) as copier:
        for _ in range(rounds):
            for node_id in cluster.nodes:
                copy.await_progress(copier)
                cluster.kill(node_id)
                copy.await_progress(copier)
                copier.kill()
                copier.start()
                cluster.start(node_id)
                cluster.await_healthy(names, deadline_s=60)
        copy.await_progress(copier)
        feed.close()
        copy.check(feed.count, copier)
    assert copy.aborted() > 0


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_several_copiers_share_the_work_while_they_are_killed(own_broker: Broker, tmp_path: Path, protocol: str) -> None:
    source, target = (create_topic(own_broker, partitions=PARTITIONS) for _ in range(2))
    copy, rng = Copy(own_broker.bootstrap_servers, source, target, PARTITIONS), random.Random(1)
    with ExitStack() as stack:
        feed = stack.enter_context(Feed(own_broker.bootstrap_servers, source))
        copiers = [
            stack.enter_context(copier_of(copy, own_broker.bootstrap_servers, tmp_path, protocol=protocol, group="shared", name=name))
            for name in ("one", "two", "three")
        ]
        for _ in range(15):
            copy.await_progress(copiers[0])
            killed = rng.choice(copiers)
            killed.kill()
            killed.start()
        copy.await_progress(copiers[0])
        feed.close()
        copy.check(feed.count, copiers[0])
    assert copy.aborted() > 0


def copier_of(
    copy: Copy, brokers: str, directory: Path, *, protocol: str = "classic", group: str = "copier", name: str = "copier"
) -> KilledProcess:
    """Each life of it aborts other transactions."""
    command = [sys.executable, "-m", "tests.transactions.copier", brokers, copy.source, copy.target, protocol, group, name]
    return KilledProcess(command, directory / f"{name}.txt")
