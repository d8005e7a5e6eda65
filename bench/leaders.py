"""Many partitions led anew: one node leads them all, and is killed.

Three times after the kill: when the first partition has a new leader, when every living node's Metadata shows a living leader for each, and
when each has acknowledged a write (acks=all). A topic of one partition is watched until its leader changes, since asking for a thousand
partitions all the time would cost the brokers what is to be measured.
"""

import time
from collections.abc import Iterable
from threading import Thread
from time import monotonic, sleep

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.failover import AFTER_THE_SESSION_SECONDS, PATIENCE_SECONDS, bring_back, led_by
from bench.load import VALUE
from bench.peers.cluster import Cluster
from bench.raw import ALL_IN_SYNC, produce_errors, produce_many_request, record_batch
from bench.topics import create_topic, drop_topic

LOOK_SECONDS = 0.02


class ManyLeaders(Case):
    """One number of partitions."""

    max_rounds = 2

    def __init__(self, partitions: int, *, session_timeout_ms: int) -> None:
        self.partitions = partitions
        self.name = f"leaders-{partitions}"
        session_seconds = session_timeout_ms / 1000
        self.title = f"{partitions} partitions led anew after a kill, session timeout {session_seconds:g} s"
        bar = Bar(session_seconds + AFTER_THE_SESSION_SECONDS, "at most", "value")
        self.metrics = (
            Metric("first leader", "s"),
            Metric("leaders of all shown", "s", bar),
            Metric("all written to", "s", bar),
            Metric("from the first leader to the last write", "s", Bar(1.0, "at most", "kafka")),
        )

    def run(self, context: Context) -> Values:
        cluster, topic = context.cluster, context.topic(self)
        leader = next(node_id for node_id in cluster.nodes if node_id != cluster.controller())
        create_topic(cluster, f"{topic}-first", assignment=[led_by(leader, cluster)])
        create_topic(cluster, topic, partitions=self.partitions, assignment=[led_by(leader, cluster)] * self.partitions)
        killed_at = monotonic()
        cluster.kill_node(leader)
        first = _await_leaders(cluster, f"{topic}-first", dead=leader) - killed_at
        shown: list[float] = []
        looking = Thread(target=lambda: shown.append(_await_leaders(cluster, topic, dead=leader)))
        looking.start()
        written = self._write_to_all(cluster, topic) - killed_at
        looking.join()
        if not shown:
            raise BenchError(f"not all partitions of {topic} had a leader after {PATIENCE_SECONDS:g} s")
        bring_back(cluster, leader, topic=topic, partitions=self.partitions)
        drop_topic(cluster, topic)
        return {
            "first leader": first,
            "leaders of all shown": shown[0] - killed_at,
            "all written to": written,
            "from the first leader to the last write": written - first,
        }

    def _write_to_all(self, cluster: Cluster, topic: str) -> float:
        """One record to each partition, again and again to those that refuse; when the last was acknowledged."""
        left = set(range(self.partitions))
        deadline = monotonic() + PATIENCE_SECONDS
        while left:
            if monotonic() > deadline:
                raise BenchError(f"{len(left)} partitions of {topic} could not be written to within {PATIENCE_SECONDS:g} s")
            with cluster.connect() as connection:
                leaders = {partition: view.leader for partition, view in connection.partitions(topic).items()}
            for node_id in cluster.running_ids:
                left -= _write(cluster, topic, (one for one in left if leaders[one] == node_id), node_id=node_id)
            sleep(LOOK_SECONDS if left else 0)
        return monotonic()


def _await_leaders(cluster: Cluster, topic: str, *, dead: int) -> float:
    """When every running node sees a living leader for each partition."""
    deadline = monotonic() + PATIENCE_SECONDS
    while any(one.leader in {dead, -1} for view in cluster.views(topic) for one in view.values()):
        if monotonic() > deadline:
            raise BenchError(f"{topic} has partitions without a leader after {PATIENCE_SECONDS:g} s")
        sleep(LOOK_SECONDS)
    return monotonic()


def _write(cluster: Cluster, topic: str, partitions: Iterable[int], *, node_id: int) -> set[int]:
    """Write one record to each of these partitions in one request; those that acknowledged it."""
    asked = sorted(partitions)
    if not asked:
        return set()
    batch = record_batch(1, value=VALUE, timestamp_ms=time.time_ns() // 1_000_000)
    with cluster.connect_to(node_id) as connection:
        answer = connection.call(produce_many_request(topic, asked, batch=batch, acks=ALL_IN_SYNC, timeout_ms=2000))
    return {partition for partition, error in produce_errors(answer).items() if error == 0}
