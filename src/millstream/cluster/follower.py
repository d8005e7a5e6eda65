"""The role of a follower of a partition: it belongs to one leader and one leader epoch."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.cluster.partition import Partition


class Follower:
    """This broker follows another one in one leader epoch."""

    __slots__ = ("is_truncating", "leader", "leader_epoch", "partition")

    def __init__(self, partition: "Partition", *, leader: int, leader_epoch: int) -> None:
        self.partition = partition
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.is_truncating = False
        """The log is being cut off in a thread: nothing else may touch it. When that is over: `Partition.settle`."""
