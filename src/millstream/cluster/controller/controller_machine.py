"""What the controller decides when brokers come and go, when leaders ask for other in-sync sets, and when operators move partitions.

Pure: states in, states out.

A broker's life has a number, its *broker epoch*. Two lives of one broker are two brokers that share a disk: what the second knows of what
the first had depends on whether the first ended well. It did if the second says so (its clean-shutdown marker names the epoch of the first)
and if the first is the life that was last decided about; otherwise the second has lost, perhaps, what was not flushed: it leaves the
in-sync and eligible sets before it may lead.

Which life was last decided about is durable (`/brokers/epochs/<id>`): a controller that takes over finds what its predecessor had not done.
Changes are computed on the states as they were read, and written over exactly these: a state that was changed meanwhile is read and decided
about again. Only what was written is `take`n over.

The reassignment of a partition (`reassignment`) is completed by the first decision that finds all of its target in sync and alive.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from millstream.admin_errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
)
from millstream.cluster.controller.leader_election import ElectionRules, changed_replicas
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import FencedLeaderEpoch, InvalidRequest, NotController, UnknownTopicOrPartition
from millstream.replication_errors import IneligibleReplica, InvalidUpdateVersion, NewLeaderElected, StaleBrokerEpoch
from millstream.topic_partition import TopicPartition

NO_EPOCH = -1


class BrokerLife(NamedTuple):
    """A registered broker, as the controller sees it."""

    epoch: int
    previous_epoch: int = NO_EPOCH
    """The life that ended well before this one, by its own account; -1 if none did."""
    is_stopping: bool = False
    """Whether it asked to be relieved of its partitions."""


class Decision(NamedTuple):
    """What is to be written: first the partitions, then the lives that have been dealt with by that."""

    partitions: Mapping[TopicPartition, PartitionState]
    lives: Mapping[int, int]


class ControllerMachine:
    """The states of all partitions and the lives of all brokers, and what follows from a change."""

    def __init__(
        self,
        partitions: Mapping[TopicPartition, PartitionState],
        known_lives: Mapping[int, int],
        *,
        rules: Callable[[str], ElectionRules],
    ) -> None:
        self.partitions = dict(partitions)
        self.brokers: dict[int, BrokerLife] = {}
        """Who is registered, as of the last `brokers_changed` that was written."""
        self.known_lives = dict(known_lives)
        """Which life of each broker was last decided about."""
        self._rules = rules

    # --- brokers ------------------------------------------------------------------------------------------------------------------------

    def brokers_changed(self, registered: Mapping[int, BrokerLife], names: Iterable[TopicPartition] | None = None) -> Decision:
        """What follows from these brokers being registered, and no others; also the first thing that a new controller asks.

        `names` are the partitions to look at, for a caller that does not look at thousands in one go; all if None, and what is gone is
        passed over. The lives may be written when all partitions have been looked at.
        """
        # Of a broker without a known life (it is new, or another hand removed the znode) nothing says that it has what it had.
        lost = {broker for broker, life in registered.items() if self.known_lives.get(broker) not in (life.epoch, life.previous_epoch)}
        changed = {}
        for name in self.partitions if names is None else names:
            state = self.partitions.get(name)
            if state is None:
                continue
            stays = [replica for replica in state.in_sync_replicas if replica in registered and replica not in lost]
            is_settled = state.leader in stays and len(stays) == len(state.in_sync_replicas)
            # Whoever is eligible may have lost what made it so, or the options of the topic may have become others.
            if is_settled and not state.eligible_leaders and not state.is_reassigning:
                continue
            if (decided := self._decide(name, state, in_sync=stays, brokers=registered, lost=lost)) != state:
                changed[name] = decided
        return Decision(changed, self._new_lives(registered))

    def _new_lives(self, registered: Mapping[int, BrokerLife]) -> dict[int, int]:
        return {broker: life.epoch for broker, life in registered.items() if self.known_lives.get(broker) != life.epoch}

    def _decide(
        self,
        name: TopicPartition,
        state: PartitionState,
        *,
        in_sync: Collection[int],
        brokers: Mapping[int, BrokerLife],
        lost: Collection[int] = (),
    ) -> PartitionState:
        """The state with these in sync, and its reassignment completed if it can be."""
        if state.is_reassigning:
            from millstream.cluster.controller.reassignment import completed, with_epoch_of_removal  # as below

            if (finished := completed(state, in_sync)) is not None:
                decided = self._elected(name, finished, in_sync=in_sync, brokers=brokers, lost=lost)
                if decided.leader != NO_LEADER:
                    return with_epoch_of_removal(state, decided)
        return self._elected(name, state, in_sync=in_sync, brokers=brokers, lost=lost)

    def _elected(
        self,
        name: TopicPartition,
        state: PartitionState,
        *,
        in_sync: Collection[int],
        brokers: Mapping[int, BrokerLife],
        lost: Collection[int],
    ) -> PartitionState:
        """The state with these in sync; a broker that is stopping leads only what no other can lead."""
        rules = self._rules(name.topic)
        decided = changed_replicas(state, in_sync=in_sync, alive=_able(brokers), rules=rules, lost=lost)
        if decided.leader == NO_LEADER:
            return changed_replicas(state, in_sync=in_sync, alive=brokers, rules=rules, lost=lost)
        return decided

    def take(self, decision: Decision, *, registered: Mapping[int, BrokerLife] | None = None) -> None:
        """The decision was written: each state now stands in the next version of its znode."""
        for name, state in decision.partitions.items():
            self.partitions[name] = state.read_at(state.partition_epoch + 1)
        self.known_lives.update(decision.lives)
        if registered is not None:
            self.brokers = dict(registered)

    # --- leaders ------------------------------------------------------------------------------------------------------------------------

    def in_sync_change(
        self, name: TopicPartition, *, leader: int, broker_epoch: int, base: PartitionState, in_sync: Mapping[int, int]
    ) -> PartitionState:
        """A leader asks for another in-sync set (AlterPartition): replicas with the lives in which it saw them, -1 if it did not say.

        One that leaves itself out resigns: it cannot write any more. (Kafka's brokers do not ask for that, and its controller refuses it.)
        """
        life = self.brokers.get(leader)
        if life is None or life.epoch != broker_epoch:
            raise StaleBrokerEpoch(f"broker {leader} is not registered with the epoch {broker_epoch}")
        state = self._known(name)
        if base.leader_epoch > state.leader_epoch or base.partition_epoch > state.partition_epoch:
            raise NotController(f"{name} is in a later epoch than this controller knows of")
        if base.leader_epoch < state.leader_epoch or state.leader != leader:
            raise FencedLeaderEpoch(f"{name} is in leader epoch {state.leader_epoch}, led by {state.leader}")
        if base.partition_epoch != state.partition_epoch:
            raise InvalidUpdateVersion(f"{name} is in partition epoch {state.partition_epoch}, not {base.partition_epoch}")
        if not in_sync or not set(in_sync) <= set(state.replicas if leader in in_sync else state.in_sync_replicas):
            raise InvalidRequest(f"{sorted(in_sync)} cannot be in sync: {name} is led by {leader} and kept by {list(state.replicas)}")
        self._check_can_join(name, state, in_sync)
        decided = self._decide(name, state, in_sync=in_sync, brokers=self.brokers)
        if leader not in in_sync and decided.leader in (leader, NO_LEADER):
            raise IneligibleReplica(f"no other replica of {name} can lead")
        is_removed = leader not in decided.replicas  # its request completes the reassignment
        if leader in in_sync and decided.leader != leader and not is_removed:  # it is stopping, and another one can lead
            raise NewLeaderElected(f"{name} is to be led by {decided.leader}")
        return decided

    def _check_can_join(self, name: TopicPartition, state: PartitionState, in_sync: Mapping[int, int]) -> None:
        for replica, epoch in in_sync.items():
            if replica in state.in_sync_replicas:
                continue
            life = self.brokers.get(replica)
            if life is None or life.is_stopping or epoch not in (NO_EPOCH, life.epoch):
                raise IneligibleReplica(f"replica {replica} cannot join {name}: it is gone, stopping, or in another life")

    def elect(self, name: TopicPartition, *, is_unclean: bool = False) -> PartitionState:
        """An operator asks for the preferred leader, or for any leader at all (ElectLeaders)."""
        state = self._known(name)
        alive = _able(self.brokers)
        rules = self._rules(name.topic)._replace(allows_unclean=is_unclean)
        is_needed = state.leader == NO_LEADER if is_unclean else state.leader != state.preferred_leader
        if not is_needed:
            raise ElectionNotNeeded(f"{name} is led by {state.leader}")
        decided = changed_replicas(state, in_sync=state.in_sync_replicas, alive=alive, rules=rules, prefers_first=not is_unclean)
        if is_unclean and decided.leader == NO_LEADER:
            raise EligibleLeadersNotAvailable(f"no replica of {name} is alive: {list(state.replicas)}")
        if not is_unclean and decided.leader != state.preferred_leader:
            raise PreferredLeaderNotAvailable(f"the preferred leader {state.preferred_leader} of {name} is not alive or not in sync")
        return decided

    def reassign(self, name: TopicPartition, target: Sequence[int] | None, *, may_grow: bool = True) -> PartitionState:
        """An operator moves a partition to these brokers, or (None) takes that back (AlterPartitionReassignments).

        A broker that is away for now may be among them, as in Kafka: then it is waited for. `may_grow`: the number of replicas may change.
        """
        from millstream.cluster.controller.reassignment import (  # a start is quicker without it
            begun,
            check_target,
            reverted,
            with_epoch_of_removal,
        )

        state = self._known(name)
        if target is not None:
            check_target(name, state, target, registered={*self.brokers, *self.known_lives}, may_grow=may_grow)
            moving = begun(state, target)
        elif state.is_reassigning:
            moving = reverted(name, state, allows_unclean=self._rules(name.topic).allows_unclean)
        else:
            raise NoReassignmentInProgress(f"{name} is not being reassigned, so there is nothing to cancel")
        if moving == state:
            return state
        return with_epoch_of_removal(state, self._decide(name, moving, in_sync=moving.in_sync_replicas, brokers=self.brokers))

    def _known(self, name: TopicPartition) -> PartitionState:
        state = self.partitions.get(name)
        if state is None:
            raise UnknownTopicOrPartition(f"{name} does not exist")
        return state

    def relieve(self, broker: int, names: Iterable[TopicPartition] | None = None) -> Decision:
        """Move the leaders away from a broker that is about to stop, and let it go from the in-sync sets; what only it can lead stays.

        `names` are the partitions to look at, as above.
        """
        stopping = {**self.brokers, broker: self.brokers[broker]._replace(is_stopping=True)}
        changed = {}
        for name in self.partitions if names is None else names:
            state = self.partitions.get(name)
            if state is None or broker not in state.in_sync_replicas or len(state.in_sync_replicas) == 1:
                continue
            stays = [replica for replica in state.in_sync_replicas if replica != broker]
            decided = self._decide(name, state, in_sync=stays, brokers=stopping)
            if decided.leader not in (NO_LEADER, broker):
                changed[name] = decided
        self.brokers = stopping
        return Decision(changed, {})

    def imbalanced(self) -> list[TopicPartition]:
        """Partitions that another than their preferred leader leads, which could."""
        alive = _able(self.brokers)
        return [
            name
            for name, state in self.partitions.items()
            if state.leader != (preferred := state.replicas[0]) and preferred in state.in_sync_replicas and preferred in alive
        ]


def _able(brokers: Mapping[int, BrokerLife]) -> frozenset[int]:
    """Who may lead."""
    return frozenset(broker for broker, life in brokers.items() if not life.is_stopping)
