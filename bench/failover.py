"""How long one partition cannot be written to: after kill -9 of its leader, after kill -9 of a leader that is also the controller, and
while its leader stops as it should.

After a kill, until another node acknowledges its first record (acks=all); that takes at least what is left of the session, whose timeout
is the same for every kind of cluster. During a controlled shutdown, the longest time without an acknowledgement. A killed node is started
again and in sync before the next one goes.
"""

from time import monotonic

from bench.case import Bar, Case, Context, Metric, Values
from bench.peers.cluster import Cluster
from bench.prober import Prober
from bench.topics import create_topic

AFTER_THE_SESSION_SECONDS = 1.0
AT_ONCE_SECONDS = 0.5
PATIENCE_SECONDS = 60.0


class Failover(Case):
    """Three ways to lose a leader."""

    name = "failover"

    def __init__(self, *, session_timeout_ms: int) -> None:
        session_seconds = session_timeout_ms / 1000
        self.title = f"failover of one partition, session timeout {session_seconds:g} s"
        bar = Bar(session_seconds + AFTER_THE_SESSION_SECONDS, "at most", "value")
        self.metrics = (
            Metric("leader killed", "s", bar),
            Metric("leader and controller killed", "s", bar),
            Metric("leader stopped", "s", Bar(AT_ONCE_SECONDS, "at most", "value")),
            Metric("the stop itself", "s"),
        )

    def run(self, context: Context) -> Values:
        cluster, topic = context.cluster, context.topic(self)
        after_kill = _kill(cluster, f"{topic}-leader", leader=_other_than(cluster.controller(), cluster))
        after_controller = _kill(cluster, f"{topic}-controller", leader=cluster.controller())
        gap, stopped_in = _stop(cluster, f"{topic}-stopped", leader=_other_than(cluster.controller(), cluster))
        return {
            "leader killed": after_kill,
            "leader and controller killed": after_controller,
            "leader stopped": gap,
            "the stop itself": stopped_in,
        }


def _kill(cluster: Cluster, topic: str, *, leader: int) -> float:
    create_topic(cluster, topic, assignment=[led_by(leader, cluster)])
    with Prober(cluster, topic) as prober:
        killed_at = monotonic()
        cluster.kill_node(leader)
        served_at = prober.await_other_leader(leader, seconds=PATIENCE_SECONDS)
    bring_back(cluster, leader, topic=topic)
    return served_at - killed_at


def _stop(cluster: Cluster, topic: str, *, leader: int) -> tuple[float, float]:
    create_topic(cluster, topic, assignment=[led_by(leader, cluster)])
    with Prober(cluster, topic) as prober:
        stopped_in = cluster.stop_node(leader)
        prober.await_other_leader(leader, seconds=PATIENCE_SECONDS)
    bring_back(cluster, leader, topic=topic)
    return prober.longest_gap(), stopped_in


def led_by(leader: int, cluster: Cluster) -> list[int]:
    """All nodes as replicas, this one preferred."""
    return [leader, *(node_id for node_id in cluster.nodes if node_id != leader)]


def _other_than(controller: int, cluster: Cluster) -> int:
    return next(node_id for node_id in cluster.nodes if node_id != controller)


def bring_back(cluster: Cluster, node_id: int, *, topic: str, partitions: int = 1) -> None:
    """Start a node again and wait until it is in sync."""
    cluster.start_node(node_id)
    cluster.await_settled(topic, partitions=partitions, seconds=PATIENCE_SECONDS)
