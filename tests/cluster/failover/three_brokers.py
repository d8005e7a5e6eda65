"""Three broker processes that clients reach without a proxy between: a broker that is gone refuses connections, as it does in life.

Their znodes are in a real ZooKeeper where there is one, else in ours as a process of its own, so that no broker takes the tree with it.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.brokers import IS_KAFKA, Broker
from tests.cluster.brokers import Brokers, KafkaBrokers, MillstreamBrokers
from tests.cluster.faults.reaper import Reaper
from tests.cluster.server_process import ServerProcess, missing_zookeeper

SESSION_TIMEOUT_MS = 3000
OPTIONS = {
    "replica.lag.time.max.ms": SESSION_TIMEOUT_MS,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 6,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
}


@contextmanager
def three_brokers(directory: Path, reaper: Reaper) -> Iterator[Brokers[Broker]]:
    """Running, and ended whatever happens."""
    with ExitStack() as stack:
        if IS_KAFKA:
            yield stack.enter_context(KafkaBrokers(directory, OPTIONS, session_timeout_ms=SESSION_TIMEOUT_MS, watchers=[reaper]))
            return
        place = directory / "coordination"
        (place / "data").mkdir(parents=True)
        tree = ServerProcess("embedded" if missing_zookeeper() else "zookeeper", place)
        stack.callback(tree.kill)
        tree.start()
        reaper.watch(tree.pid)
        where = f"{tree.address}/clients"
        yield stack.enter_context(
            MillstreamBrokers(directory, OPTIONS, zookeeper=where, session_timeout_ms=SESSION_TIMEOUT_MS, watchers=[reaper])
        )
