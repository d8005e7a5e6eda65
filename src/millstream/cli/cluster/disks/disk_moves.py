"""Replicas on their way to other data directories of their brokers: begun, watched, taken back.

A replica that its broker does not have yet is asked for all the same, as kafka-reassign-partitions does it: the broker remembers the
directory, should the replica come, and is asked again until it is there. So it gets there even if the broker was restarted in between.
"""

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from millstream.admin_errors import ReplicaNotAvailable
from millstream.cli.cluster.planning.plan import DiskMove
from millstream.client.admin.disk_admin import Replica
from millstream.client.errors import BrokerUnavailable
from millstream.errors import MillstreamError, NotLeaderOrFollower, UnknownTopicOrPartition

if TYPE_CHECKING:
    from millstream.cli.cluster.operated_cluster import OperatedCluster
    from millstream.topic_partition import TopicPartition

NOT_YET: Final = (ReplicaNotAvailable, UnknownTopicOrPartition, NotLeaderOrFollower, BrokerUnavailable)
"""The replica has not come, or its broker is away: so it may be later."""
PATIENCE_S: Final = 15.0
"""Brokers hear a little later than the controller that a replica is theirs."""


class DiskMoves:
    """Some moves between disks; those that were found under way need no `begin`."""

    def __init__(self, operated: "OperatedCluster", moves: Collection[DiskMove]) -> None:
        self._operated = operated
        self._moves = {move.replica: move for move in moves}
        self._pending: dict[Replica, float] = {}
        """Those that are to be asked for again, and since when nothing else holds them up."""
        self._copied: dict[Replica, int] = {}
        self.failed: dict[Replica, str] = {}
        """Why replicas are not where they should be."""
        self.gone: set[Replica] = set()
        """Those of them that their brokers do not have any more."""
        self.absent: set[int] = set()
        """Brokers that did not answer when they were last asked how far they are."""

    @property
    def moves(self) -> Collection[DiskMove]:
        """All of them, whatever became of them."""
        return self._moves.values()

    def begin(self) -> dict[Replica, MillstreamError]:
        """Ask for all of them; returns what was refused, other than that a replica is still to come."""
        refused = self._ask(self._moves.keys())
        return {replica: error for replica, error in refused.items() if not self._may_come(replica, error)}

    def take_back(self) -> dict[Replica, MillstreamError]:
        """Let replicas stay where they were; returns those that cannot be told so."""
        back = {move.replica: move.before for move in self._moves.values() if move.before is not None}
        return self._operated.disks.move(back)

    def look(self, under_way: "Collection[TopicPartition]") -> dict[Replica, int]:
        """The bytes of those that are still under way; `under_way`: partitions that get other replicas meanwhile."""
        self._ask_again(under_way)
        left = [replica for replica in self._moves if replica not in self.failed]
        found = self._operated.describe_disks(left)
        self.absent = {replica.broker for replica in left} - found.of_brokers.keys()
        moving: dict[Replica, int] = {}
        for replica in left:
            move, current, future = self._moves[replica], found.current.get(replica), found.future.get(replica)
            if future is not None and future.path == move.after:
                self._copied[replica] = moving[replica] = future.size_bytes
            elif current is not None and current.path == move.after:
                self._pending.pop(replica, None)
            elif replica in self._pending or replica.broker not in found.of_brokers:
                # A broker that is away goes on when it is back.
                moving[replica] = self._copied.get(replica, 0)
            elif current is None:
                self.gone.add(replica)
                self.failed[replica] = "the broker does not have it any more"
            else:
                self.failed[replica] = (
                    f"it stays in {current.path}: the log of the broker says why (a full disk?), or another command cancelled it"
                )
        return moving

    def _ask(self, replicas: Collection[Replica]) -> Mapping[Replica, MillstreamError]:
        refused = self._operated.disks.move({replica: self._moves[replica].after for replica in replicas})
        now_s = time.monotonic()
        for replica in replicas:
            if replica in refused and self._may_come(replica, refused[replica]):
                self._pending.setdefault(replica, now_s)
            else:
                self._pending.pop(replica, None)
        return refused

    def _ask_again(self, under_way: "Collection[TopicPartition]") -> None:
        if not self._pending:
            return
        now_s = time.monotonic()
        for replica in self._pending:
            if replica.place in under_way:
                self._pending[replica] = now_s
        for replica, error in self._ask(list(self._pending)).items():
            if replica not in self._pending:
                self.failed[replica] = str(error)
            elif now_s - self._pending[replica] > PATIENCE_S and not isinstance(error, BrokerUnavailable):
                self.failed[replica] = str(error)
                del self._pending[replica]

    def _may_come(self, replica: Replica, error: MillstreamError) -> bool:
        return isinstance(error, NOT_YET) and self._moves[replica].before is None
