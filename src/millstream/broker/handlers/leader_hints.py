"""Where the leader is that a client looks for: answers of Produce and Fetch carry it where they refuse a partition (KIP-951).

A client that is told so turns there at once, instead of asking for metadata first.
"""

from collections.abc import Iterable

from millstream.cluster.replicas import Replicas, TopicKey
from millstream.wire.primitives import NodeEndpoint

LeaderAndEpoch = tuple[int, int]


class LeaderHints:
    """What this broker knows of other leaders."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def leader_of(self, key: TopicKey | None, index: int) -> LeaderAndEpoch | None:
        """Leader and leader epoch of a partition, wherever it is kept; None if there is no such partition."""
        state = None if key is None else self._replicas.state_of(key, index)
        return None if state is None else (state.leader, state.leader_epoch)

    def endpoints(self, leaders: Iterable[int]) -> list[NodeEndpoint]:
        """Where these brokers are reached; those that are not there are left out."""
        brokers = self._replicas.view.brokers
        found = (brokers.get(leader) for leader in dict.fromkeys(leaders))
        return [NodeEndpoint(broker.node_id, broker.host, broker.port, broker.rack) for broker in found if broker is not None]
