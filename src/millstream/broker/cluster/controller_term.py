"""One term of office of the controller: what it knows, and each of its decisions from being made to being written.

The rules are in `ControllerMachine`; here they meet the znodes. Everything is called by one task (`ActiveController`), one call at a time,
so the machine does not change between a decision and its writing. Decisions about thousands of partitions are made in slices between which
the loop does other work, and written in chunks; the lives of brokers go with the last chunk, so that no broker takes up a role before all
that concerns its former life has been written. Only what was written is taken over.

A partition that was changed by another hand (BadVersion, or its topic is being deleted) is read again, and the decision is made again, a
few times; one that was removed by it is brought back first. Any other failure leaves open what was written: the term is over, and the next
one begins with what is in the tree.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from millstream.cluster.controller.controller_machine import BrokerLife, ControllerMachine, Decision
from millstream.cluster.controller.leader_election import ElectionRules
from millstream.coordination.cluster_view import ClusterView, TopicState
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import KafkaError, NotController, RetriableError, UnknownTopicId, UnknownTopicOrPartition
from millstream.replication_errors import StaleBrokerEpoch
from millstream.topic_partition import TopicPartition
from millstream.zookeeper.errors import BadVersion, NoNode

logger = logging.getLogger(__name__)

SLICE: Final = 250
"""Partitions that are looked at in one turn of the loop: a few milliseconds."""
LISTED_SLICE: Final = 5_000
"""Partitions of which it is looked up in one turn whether they are being moved."""
CHUNK: Final = 500
"""Partitions that are written together: about 100 KB, a tenth of what ZooKeeper takes."""
MAX_TRIES: Final = 5


class MetadataTree(Protocol):
    """The znodes, as the controller uses them."""

    async def write_states(self, states: Mapping[TopicPartition, PartitionState], lives: Mapping[int, int] = ...) -> None:
        """Replace states, each over the version that it was made from; BadVersion if one was changed, NotController when fenced off."""

    async def read_states(self, known: Mapping[TopicPartition, PartitionState]) -> Mapping[TopicPartition, PartitionState]:
        """Partitions as they stand in the tree; without those that are gone."""

    async def announce(self, names: Collection[TopicPartition]) -> None:
        """Have every broker read these partitions again."""

    async def restore_partition(self, topic: TopicState, number: int, state: PartitionState) -> bool:
        """Bring back a partition that another hand has removed, as it was; False if its topic is gone or changed, too."""


class InSyncChange(NamedTuple):
    """What a leader asks for."""

    base: PartitionState
    """What it knows: only its epochs count."""
    in_sync: Mapping[int, int]
    """The replicas with the lives in which the leader saw them, -1 if it did not say."""
    topic_id: UUID | None = None
    """The topic it means: another one of the same name may be in the same epochs."""


class ControllerTerm:
    """What one controller knows and decides, from its election until it resigns or loses track."""

    def __init__(
        self,
        tree: MetadataTree,
        *,
        rules: Callable[[TopicState], ElectionRules],
        own_topics: Callable[[], Mapping[str, int]],
        stopping: dict[int, int],
        newest: Callable[[], ClusterView | None],
        is_in_office: Callable[["ControllerTerm"], bool],
    ) -> None:
        self.view: ClusterView | None = None
        """What was followed up to now."""
        self.machine = ControllerMachine({}, {}, rules=lambda _topic: ElectionRules())
        self._tree = tree
        self._rules = rules
        self._own_topics = own_topics
        """The topics that the cluster itself lives by, with the number of replicas that they should have."""
        self._stopping = stopping
        """Brokers that asked to be relieved, by number, with the life in which they did."""
        self._newest = newest
        """The view of now, which may be ahead of what is being followed."""
        self._is_in_office = is_in_office

    # --- what happens in the cluster ----------------------------------------------------------------------------------------------------

    async def follow(self, view: ClusterView) -> None:
        """Take up a view, and do what follows from it; the first one brings everything."""
        last, self.view = self.view, view
        names = self._begin(view) if last is None else self._take_up(last, view)
        registered, changed = self._registered(view), set[TopicPartition]()
        overwritten = {} if last is None else self._overwritten_lives(last, view)

        def decide(some: Iterable[TopicPartition]) -> Decision:
            decision = self.machine.brokers_changed(registered, some)
            return decision._replace(lives={**overwritten, **decision.lives})

        await self._settle(decide, names, on_written=changed.update)
        if last is not None and (news := _news(self.machine.brokers, registered)):
            self._log(news, changed)
        self.machine.brokers = registered
        await self._grow_replicas(view)

    def _log(self, news: str, changed: Iterable[TopicPartition]) -> None:
        states = [state for name in changed if (state := self.machine.partitions.get(name)) is not None]
        leaderless = sum(state.leader == NO_LEADER for state in states)
        logger.info("%s: %d partitions were decided anew, %d of them have no leader", news, len(states), leaderless)

    def _begin(self, view: ClusterView) -> Collection[TopicPartition]:
        states = {
            TopicPartition(topic.name, number): state for topic in view.topics.values() for number, state in enumerate(topic.partitions)
        }
        self.machine = ControllerMachine(states, view.lives, rules=self._rules_of)
        return states.keys()

    def _take_up(self, last: ClusterView, view: ClusterView) -> Collection[TopicPartition]:
        """Bring the partitions up to the view; returns those for which something may have to be decided."""
        partitions = self.machine.partitions
        touched: list[TopicPartition] = []
        for name in view.topics_changed_since(last):
            former, topic = last.topics.get(name), view.topics.get(name)
            if former is not None and (topic is None or topic.topic_id != former.topic_id):
                for number in range(len(former.partitions)):
                    partitions.pop(TopicPartition(name, number), None)
                former = None
            if topic is not None:
                touched += _changed_partitions(former, topic)
        for partition in touched:
            known, state = partitions.get(partition), view.topics[partition.topic].partitions[partition.partition]
            if known is None or known.partition_epoch < state.partition_epoch:
                partitions[partition] = state
        is_about_all = view.broker_configs != last.broker_configs or self._registered(view) != self.machine.brokers
        return list(partitions) if is_about_all else touched

    def _overwritten_lives(self, last: ClusterView, view: ClusterView) -> dict[int, int]:
        """Lives that another hand has changed or removed: a broker of which they say something else would take up no role any more."""
        known = self.machine.known_lives
        return {
            number: broker.epoch
            for number, broker in view.brokers.items()
            if broker.epoch == known.get(number) == last.lives.get(number) != view.lives.get(number)
        }

    def _registered(self, view: ClusterView) -> dict[int, BrokerLife]:
        return {
            number: BrokerLife(broker.epoch, broker.previous_epoch, is_stopping=self._stopping.get(number) == broker.epoch)
            for number, broker in view.brokers.items()
        }

    def _rules_of(self, topic: str) -> ElectionRules:
        found = self.view.topics.get(topic) if self.view is not None else None
        return ElectionRules() if found is None else self._rules(found)

    async def _grow_replicas(self, view: ClusterView) -> None:
        """Give topics of the cluster's own as many replicas as they should have and as there are brokers for."""
        racks = {number: view.brokers[number].rack for number, life in self.machine.brokers.items() if not life.is_stopping}
        for name, wanted in self._own_topics().items():
            topic = view.topics.get(name)
            if topic is not None and len(racks) > 1:
                names = [TopicPartition(name, number) for number in range(len(topic.partitions))]
                await self._settle(lambda some, wanted=wanted: self._grown(some, racks, wanted), names)  # type: ignore[misc]

    def _grown(self, names: Iterable[TopicPartition], racks: Mapping[int, str | None], replication_factor: int) -> Decision:
        from millstream.cluster.controller.replica_growth import grown_replicas  # a broker alone never needs it

        states = {name: state for name in names if (state := self.machine.partitions.get(name)) is not None}
        return Decision(grown_replicas(states, racks, replication_factor=replication_factor), {})

    # --- what brokers and operators ask for ---------------------------------------------------------------------------------------------

    async def alter_partitions(
        self, broker: int, broker_epoch: int, changes: Mapping[TopicPartition, InSyncChange]
    ) -> Mapping[TopicPartition, PartitionState | KafkaError]:
        """Change in-sync sets, as the leader asks for it; each partition has an answer of its own."""
        self._check_registered(broker, broker_epoch)

        def decide(name: TopicPartition) -> PartitionState:
            base, in_sync, topic_id = changes[name]
            known = self.view.topics.get(name.topic) if self.view is not None else None
            if topic_id is not None and known is not None and known.topic_id != topic_id:
                raise UnknownTopicId(f"topic {name.topic!r} was deleted and created again, no topic has the id {topic_id}")
            return self.machine.in_sync_change(name, leader=broker, broker_epoch=broker_epoch, base=base, in_sync=in_sync)

        known = self.machine.partitions
        moving = [name for name in changes if name in known and known[name].is_reassigning]
        answers = await self._decide_each(decide, changes)
        if arrived := sum(isinstance(one := answers[name], PartitionState) and not one.is_reassigning for name in moving):
            logger.info("%d partitions have arrived at the brokers that they were reassigned to", arrived)
        return answers

    async def elect(
        self, names: Collection[TopicPartition], *, is_unclean: bool = False
    ) -> Mapping[TopicPartition, PartitionState | KafkaError]:
        """Elect preferred leaders, or any at all; each partition has an answer of its own."""
        return await self._decide_each(lambda name: self.machine.elect(name, is_unclean=is_unclean), names)

    async def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, may_grow: bool = True
    ) -> Mapping[TopicPartition, PartitionState | KafkaError]:
        """Move partitions to other brokers, or (None) take that back; each partition has an answer of its own."""
        known = self.machine.partitions
        before = {name: known[name] for name in targets if name in known}
        answers = await self._decide_each(lambda name: self.machine.reassign(name, targets[name], may_grow=may_grow), targets)
        await asyncio.sleep(0)
        changed = [answer for name, answer in answers.items() if isinstance(answer, PartitionState) and answer != before.get(name)]
        if changed:
            under_way = sum(state.is_reassigning for state in changed)
            logger.info("%d partitions are reassigned, %d of them have to be copied first", len(changed), under_way)
        return answers

    async def reassignments(self) -> Mapping[TopicPartition, PartitionState]:
        """The partitions that are being moved."""
        found: dict[TopicPartition, PartitionState] = {}
        names = list(self.machine.partitions)
        for start in range(0, len(names), LISTED_SLICE):
            if start:
                await asyncio.sleep(0)
            found |= {
                name: state for name in names[start : start + LISTED_SLICE] if (state := self.machine.partitions[name]).is_reassigning
            }
        return found

    async def relieve(self, broker: int, broker_epoch: int) -> None:
        """Move leadership away from a broker that is about to stop; afterwards it leads only what no other can lead."""
        self._check_registered(broker, broker_epoch)
        self._stopping[broker] = broker_epoch
        await self._settle(lambda some: self.machine.relieve(broker, some), list(self.machine.partitions))

    async def balance_leaders(self) -> None:
        """Let preferred leaders lead again that can."""
        answers = await self.elect(self.machine.imbalanced())
        if moved := sum(isinstance(answer, PartitionState) for answer in answers.values()):
            logger.info("%d partitions are led by their preferred leaders again", moved)

    def _check_registered(self, broker: int, broker_epoch: int) -> None:
        life = self.machine.brokers.get(broker)
        if life is None or life.epoch != broker_epoch:
            raise StaleBrokerEpoch(f"broker {broker} is not registered with the epoch {broker_epoch}")

    # --- from decision to znode ---------------------------------------------------------------------------------------------------------

    async def _decide_each(
        self, decide: Callable[[TopicPartition], PartitionState], names: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionState | KafkaError]:
        answers: dict[TopicPartition, PartitionState | KafkaError] = {}

        def decide_some(some: Iterable[TopicPartition]) -> Decision:
            changed = {}
            for name in some:
                if isinstance(answers.get(name), PartitionState):
                    continue  # written in a try before
                try:
                    decided = decide(name)
                except KafkaError as error:
                    answers[name] = error
                    continue
                if decided == self.machine.partitions[name]:
                    answers[name] = decided
                else:
                    changed[name] = decided
            return Decision(changed, {})

        def written(names: Iterable[TopicPartition]) -> None:
            answers.update((name, self.machine.partitions[name]) for name in names)

        await self._settle(decide_some, names, on_written=written)
        if len(names) > SLICE:
            await asyncio.sleep(0)
        gone = {name: UnknownTopicOrPartition(f"{name} does not exist any more") for name in names if name not in answers}
        return {**answers, **gone}

    async def _settle(
        self,
        decide: Callable[[Iterable[TopicPartition]], Decision],
        names: Collection[TopicPartition],
        *,
        on_written: Callable[[Iterable[TopicPartition]], None] = lambda _names: None,
    ) -> None:
        """Decide and write, again if something was changed by another hand meanwhile."""
        listed = list(names)
        for _ in range(MAX_TRIES):
            decision = await self._decide(decide, listed)
            if not decision.partitions and not decision.lives:
                return
            try:
                await self._write(decision, on_written)
            except (BadVersion, NoNode) as error:
                logger.info("a partition was changed by another hand, what is decided about it is decided again: %r", error)
                await self._read_again(decision.partitions.keys())
            else:
                return
        raise Contended(f"{len(listed)} partitions were changed by others {MAX_TRIES} times in a row while they were decided about")

    async def _decide(self, decide: Callable[[Iterable[TopicPartition]], Decision], names: list[TopicPartition]) -> Decision:
        changed: dict[TopicPartition, PartitionState] = {}
        lives: Mapping[int, int] = {}
        for start in range(0, max(len(names), 1), SLICE):
            if start:
                await asyncio.sleep(0)
            decision = decide(names[start : start + SLICE])
            changed.update(decision.partitions)
            lives = decision.lives
        return Decision(changed, lives)

    async def _write(self, decision: Decision, on_written: Callable[[Iterable[TopicPartition]], None]) -> None:
        names = list(decision.partitions)
        for start in range(0, max(len(names), 1), CHUNK):
            if len(names) > SLICE:
                await asyncio.sleep(0)
            some = {name: decision.partitions[name] for name in names[start : start + CHUNK] if self._is_still_there(name.topic)}
            lives = decision.lives if start + CHUNK >= len(names) else {}
            if not self._is_in_office(self):
                raise NotController("this broker is not the controller any more")
            await self._tree.write_states(some, lives)
            self.machine.take(Decision(some, lives))
            on_written(some)

    def _is_still_there(self, topic: str) -> bool:
        """Whether the topic that was decided about is there. A later one of its name has partitions of the same versions.

        No topic is created before the view of this broker has let go of the one that had its name.
        """
        newest = self._newest()
        known, present = (None if view is None else view.topics.get(topic) for view in (self.view, newest))
        return known is not None and present is not None and known.topic_id == present.topic_id

    async def _read_again(self, doubtful: Collection[TopicPartition]) -> None:
        partitions = self.machine.partitions
        found = dict(await self._tree.read_states({name: partitions[name] for name in doubtful if self._is_still_there(name.topic)}))
        for name in doubtful:
            if name not in found and await self._restored(name):
                found[name] = partitions[name]
        found = {name: state for name, state in found.items() if self._is_still_there(name.topic)}
        edited = [name for name, state in found.items() if state.partition_epoch > partitions[name].partition_epoch]
        for name in doubtful:
            if name in found:
                partitions[name] = found[name]
            else:
                del partitions[name]
        if edited:
            # No list of changes names them. Their leaders would ask for changes of what they know for ever, and be refused each time.
            await self._tree.announce(edited)

    async def _restored(self, name: TopicPartition) -> bool:
        """Whether the partition of a topic that is there has no znode, and has one again. Nothing could be decided about it for ever."""
        topic = self.view.topics.get(name.topic) if self.view is not None else None
        if topic is None or not self._is_still_there(name.topic):
            return False
        return await self._tree.restore_partition(topic, name.partition, self.machine.partitions[name])


def _news(known: Mapping[int, BrokerLife], registered: Mapping[int, BrokerLife]) -> str:
    """Which brokers came and went, in words; nothing if none did."""
    both = known.keys() & registered.keys()
    kinds = {
        "gone": known.keys() - registered.keys(),
        "there": registered.keys() - known.keys(),
        "registered anew": {number for number in both if known[number].epoch != registered[number].epoch},
    }
    return ", ".join(f"broker {number} is {word}" for word, numbers in kinds.items() for number in sorted(numbers))


def _changed_partitions(former: TopicState | None, topic: TopicState) -> list[TopicPartition]:
    """The partitions of which the view says something else than the one before; all, if the options of the topic became others."""
    last = former.partitions if former is not None and former.configs == topic.configs else ()
    pairs = zip_longest(topic.partitions, last[: len(topic.partitions)])
    return [TopicPartition(topic.name, number) for number, (state, known) in enumerate(pairs) if state is not known]


class Contended(RetriableError):
    """Others keep changing what is being decided about."""

    code = 7
