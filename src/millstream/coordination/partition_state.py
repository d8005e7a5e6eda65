"""The state of one partition: who keeps it, who leads it, who has everything that is committed.

Written by the controller alone, to a znode of its own (`/brokers/topics/<topic>/partitions/<number>`, JSON): a change of the in-sync set
neither rewrites nor re-reads the topic. The version of that znode is the *partition epoch*, by which a decision made on an old state is
refused.

    in_sync_replicas    have everything below the high watermark, and the leader waits for them
    eligible_leaders    (KIP-966) left the in-sync set when it was below `min.insync.replicas`. While it is, the high watermark stands
                        still, so that they have everything that is committed too, and may lead
    last_leader         who led before there was no leader, or -1: if both sets become empty it may lead without an unclean election
    adding_replicas     (KIP-455) while the partition is being reassigned: the replicas that it did not have before
    removing_replicas   ... and those that it will not have afterwards; both are among `replicas` (`cluster.reassignment`)
    is_assigned         an operator has said where the replicas are, so the cluster itself adds none (`cluster.replica_growth`)

The last three are left out of the znode where there is nothing to say.

The znode can be edited by anyone, so `decode` is strict: it raises ValueError, naming the field, for everything that we would not have
written.
"""

import json
from typing import Final, NamedTuple, Self

from millstream.json_object import JsonObject

NO_LEADER: Final = -1


class PartitionState(NamedTuple):
    """What the controller decided about a partition."""

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    in_sync_replicas: tuple[int, ...]
    eligible_leaders: tuple[int, ...] = ()
    last_leader: int = NO_LEADER
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    is_assigned: bool = False
    partition_epoch: int = 0
    """Version of the znode that this was read from; what is to be written has the version that it replaces."""

    @classmethod
    def first(cls, replicas: tuple[int, ...], *, alive: frozenset[int] | None = None) -> Self:
        """A new partition: those of its replicas that are alive are in sync with the empty log, and the first of them leads."""
        in_sync = tuple(replica for replica in replicas if alive is None or replica in alive)
        return cls(replicas=replicas, leader=in_sync[0], leader_epoch=0, in_sync_replicas=in_sync)

    @property
    def preferred_leader(self) -> int:
        """The replica that should lead, so that leaders are spread as they were placed."""
        return self.replicas[0]

    @property
    def is_reassigning(self) -> bool:
        """Whether the partition is being moved to other brokers."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas that the partition has when its reassignment is finished; without one, those it has."""
        if not self.removing_replicas:
            return self.replicas
        return tuple(replica for replica in self.replicas if replica not in self.removing_replicas)

    def read_at(self, partition_epoch: int) -> "PartitionState":
        """The same, as read from that version of its znode."""
        return self._replace(partition_epoch=partition_epoch)

    def encode(self) -> bytes:
        """The content of the znode."""
        fields: dict[str, object] = {
            "replicas": self.replicas,
            "leader": self.leader,
            "leader_epoch": self.leader_epoch,
            "in_sync_replicas": self.in_sync_replicas,
            "eligible_leaders": self.eligible_leaders,
            "last_leader": self.last_leader,
        }
        if self.is_reassigning:
            fields |= {"adding_replicas": self.adding_replicas, "removing_replicas": self.removing_replicas}
        if self.is_assigned:
            fields["is_assigned"] = True
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, data: bytes, *, partition_epoch: int) -> Self:
        """The state in a znode; ValueError if that makes no sense."""
        fields = JsonObject.parse(data)
        replicas = fields.integers("replicas")
        in_sync, eligible = fields.integers("in_sync_replicas"), fields.integers("eligible_leaders")
        leader, last_leader = fields.integer("leader", lowest=NO_LEADER), fields.integer("last_leader", lowest=NO_LEADER)
        if not replicas:
            raise ValueError("replicas must not be empty")
        adding, removing = _optional(fields, "adding_replicas"), _optional(fields, "removing_replicas")
        if not {*adding, *removing} <= set(replicas) or set(removing) == set(replicas) or set(adding) == set(replicas):
            raise ValueError(f"a partition with the replicas {replicas} cannot be adding {adding} and removing {removing}")
        if not {leader, last_leader, *in_sync, *eligible} <= {*replicas, NO_LEADER}:
            raise ValueError(f"a partition with the replicas {replicas} is led by {leader}, in sync on {in_sync}, eligible on {eligible}")
        if leader != NO_LEADER and leader not in in_sync:
            raise ValueError(f"the leader {leader} must be in sync, and in_sync_replicas are {list(in_sync)}")
        if set(in_sync) & set(eligible):
            raise ValueError(f"eligible_leaders must not be in sync, and both are {sorted(set(in_sync) & set(eligible))}")
        is_assigned = "is_assigned" in fields and fields.boolean("is_assigned")
        leader_epoch = fields.integer("leader_epoch")
        return cls(replicas, leader, leader_epoch, in_sync, eligible, last_leader, adding, removing, is_assigned, partition_epoch)

    def check_follows(self, last: "PartitionState") -> None:
        """Raise ValueError unless this may be what became of `last`: leader epochs never go back, and one epoch has one leader."""
        if self.partition_epoch < last.partition_epoch:
            raise ValueError(f"the znode's version was {last.partition_epoch}, and is {self.partition_epoch}")
        if self.leader_epoch < last.leader_epoch:
            raise ValueError(f"leader_epoch must not go back from {last.leader_epoch} to {self.leader_epoch}")
        if self.leader_epoch == last.leader_epoch and self.leader != last.leader:
            raise ValueError(f"epoch {self.leader_epoch} belongs to the leader {last.leader}, not to {self.leader}")


def _optional(fields: JsonObject, name: str) -> tuple[int, ...]:
    return fields.integers(name) if name in fields else ()
