"""Which brokers are close to a consumer, by its rack: Kafka's `RackAwareReplicaSelector` (KIP-392).

A leader that knows a better replica for a consumer says which, instead of records. It is one in the rack of the consumer; a leader that is
there itself sends no one away. Which of several is best is said by the leader's `ReplicaSet`.
"""

from collections.abc import Callable, Collection

from millstream.coordination.cluster_view import ClusterView


def in_rack(view: Callable[[], ClusterView], node_id: int, rack: str) -> Collection[int]:
    """The brokers that consumers of this rack are better off with than with this one, of that number; mostly none."""
    near = [number for number, broker in view().brokers.items() if broker.rack == rack]
    return () if node_id in near else near
