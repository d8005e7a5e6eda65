"""The leader's side of the in-sync sets: asks the controller for the changes that the partitions led here want (AlterPartition, KIP-497).

One request is under way at a time and carries all changes that are wanted. They are looked for when a follower has caught up (`wanted`),
and from time to time for followers that have fallen behind. A leader that cannot write to a partition asks for the set without itself:
another one leads then. From the moment it is asked for until it is decided a change is *pending*: the
high watermark waits for the replicas of both sets. So what becomes of it decides what may happen next, as in Kafka:

    done           the new state holds at once; the view brings it too
    done, and      (a reassignment is completed by it, or another one leads) it stays pending until the view brings the role in that
    in a new epoch epoch, and is not asked for again
    refused        (INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED) the controller has not done it and never will: not pending any more
    anything else  no answer, another controller, another epoch: it may have been done. It stays pending, and is asked for again on the
                   same base, until the view has a newer state or another leader. A base that is no longer the newest is never done
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from uuid import UUID

from millstream.broker.storage.loop_turns import in_turns
from millstream.client.codecs.request import MessageRequest, Request
from millstream.clock import Clock
from millstream.cluster.replica_set import ReplicaSet
from millstream.coordination.cluster_view import ClusterView
from millstream.coordination.partition_state import PartitionState
from millstream.errors import MillstreamError
from millstream.replication_errors import IneligibleReplica
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.responses.alter_partition import AlterPartitionResponse, PartitionData

logger = logging.getLogger(__name__)

ANSWER_S: Final = 10.0
RETRY_S: Final = 1.0
MOST_IN_ONE: Final = 500
"""Partitions in one request, which is put together, and looked at by the controller, in one turn each."""
OPERATION_NOT_ATTEMPTED: Final = 55
REFUSALS: Final = frozenset({IneligibleReplica.code, OPERATION_NOT_ATTEMPTED})


class AppendedLog(Protocol):
    """The log of a partition."""

    @property
    def log_end_offset(self) -> int:
        """Where the next record goes."""


class Leading(Protocol):
    """The role of a leader (`cluster.leader`)."""

    @property
    def replica_set(self) -> ReplicaSet:
        """What it knows of its followers."""

    @property
    def log(self) -> AppendedLog:
        """Its own log."""

    def commit(self) -> None:
        """Let the high watermark follow what the replicas have."""

    def decided(self, state: PartitionState) -> None:
        """The controller decided something else for the same epoch."""

    def refused(self) -> None:
        """The controller will not do what it was asked for."""


class LedPartition(Protocol):
    """A partition that this broker may lead (`cluster.partition`)."""

    @property
    def topic(self) -> str:
        """Its topic."""

    @property
    def index(self) -> int:
        """Its number."""

    @property
    def leading(self) -> Leading | None:
        """The role, while this broker leads."""


class Channel(Protocol):
    """The way to the controller (`broker.cluster.controller_channel`)."""

    async def ask(self, request: "Request[AlterPartitionResponse]", *, timeout_s: float) -> "AlterPartitionResponse":
        """The controller's answer."""


class Asked(NamedTuple):
    """A change that is pending."""

    partition: LedPartition
    leading: Leading
    base: PartitionState
    in_sync: Mapping[int, int]

    @property
    def is_pending(self) -> bool:
        """Whether it is still open what becomes of it: no newer state, no other role."""
        return self.partition.leading is self.leading and self.leading.replica_set.state.partition_epoch == self.base.partition_epoch


class InSyncChanges:
    """Collects the changes and asks for them, one request at a time."""

    def __init__(
        self,
        partitions: Iterable[LedPartition],
        channel: Channel,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        view: Callable[[], ClusterView],
        clock: Clock,
        interval_s: Callable[[], float],
    ) -> None:
        self._partitions = partitions
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._view = view
        self._clock = clock
        self._interval_s = interval_s
        self._wake = asyncio.Event()
        self._wanted: set[LedPartition] = set()
        self._resigning: set[LedPartition] = set()
        self._asked: dict[TopicPartition, Asked] = {}
        self._resting: dict[TopicPartition, float] = {}
        """Changes that were refused, and until when they are not asked for again."""

    def wanted(self, partition: LedPartition) -> None:
        """A follower has caught up; looked at on a later turn of the loop, with all others of which that is said meanwhile."""
        self._wanted.add(partition)
        self._wake.set()

    def resign(self, partition: LedPartition) -> None:
        """The partition cannot be written to here: another in-sync replica should lead it, if there is one."""
        self._resigning.add(partition)
        self.wanted(partition)

    async def run(self) -> None:
        """Look for changes and ask for them, until cancelled."""
        loop = asyncio.get_running_loop()
        next_look = loop.time() + self._interval_s()
        while True:
            if not self._asked:
                await self._rest(next_look - loop.time())
            some, self._wanted = self._wanted, set()
            is_due = loop.time() >= next_look
            if is_due:
                next_look = loop.time() + self._interval_s()
            self._resting = {name: until for name, until in self._resting.items() if until > loop.time()}
            await self._collect(self._partitions if is_due else some)
            await asyncio.sleep(0)
            self._resigning -= some
            self._asked = {name: asked for name, asked in self._asked.items() if asked.is_pending}
            if self._asked and not await self._ask():
                await asyncio.sleep(RETRY_S)

    async def _rest(self, seconds: float) -> None:
        """Wait for something to do, at most so long."""
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                pass
        self._wake.clear()

    async def _collect(self, partitions: Iterable[LedPartition]) -> None:
        """Note what the partitions want; from here on that is pending."""
        able = self._view().brokers.keys()
        async for some in in_turns(list(partitions)):
            for partition in some:
                leading = partition.leading
                if leading is not None and len(leading.replica_set.state.replicas) > 1 and self._broker_epoch() >= 0:
                    self._consider(partition, leading, able)

    def _consider(self, partition: LedPartition, leading: Leading, able: Collection[int]) -> None:
        name = TopicPartition(partition.topic, partition.index)
        replica_set = leading.replica_set
        if replica_set.high_watermark < leading.log.log_end_offset:
            # It may wait for a follower that was about to join, and has been too slow for that by now; that alone wakes no one.
            leading.commit()
        if name in self._resting:
            return
        known = self._asked.get(name)
        if known is not None and known.is_pending:
            return
        in_sync = replica_set.resignation(able=able) if partition in self._resigning else None
        if in_sync is None:
            in_sync = replica_set.wanted_change(leading.log.log_end_offset, able=able, now_ms=self._clock.monotonic_ms())
        if in_sync is not None:
            self._asked[name] = Asked(partition, leading, replica_set.state, in_sync)
            replica_set.asked(in_sync)

    async def _ask(self) -> bool:
        """Ask for what is pending; False if something of it has to be asked for again, after a pause."""
        request, by_id = self._request()
        if not by_id:
            return False
        try:
            answer = await self._channel.ask(request, timeout_s=ANSWER_S)
        except (
            MillstreamError,
            OSError,
            ImportError,
        ) as error:  # the latter: no descriptor is left to load what is needed for the first time
            logger.info("the controller did not answer for %d changes of in-sync sets, which stay pending: %s", len(self._asked), error)
            return False
        if answer.error_code:
            logger.info("the controller did not look at changes of in-sync sets, error code %d", answer.error_code)
            return False
        sent = list(self._asked)[:MOST_IN_ONE]
        for topic in answer.topics:
            for one in topic.partitions if topic.topic_id in by_id else ():
                self._answered(TopicPartition(by_id[topic.topic_id], one.partition_index), one)
        return not any(name in self._asked for name in sent)

    def _request(self) -> "tuple[MessageRequest[AlterPartitionResponse], dict[UUID | None, str]]":
        view_topics = self._view().topics
        topics: dict[str, list[dict[str, object]]] = {}
        for name, asked in list(self._asked.items())[:MOST_IN_ONE]:
            if name.topic in view_topics:
                topics.setdefault(name.topic, []).append(
                    {
                        "partition_index": name.partition,
                        "leader_epoch": asked.base.leader_epoch,
                        "new_isr_with_epochs": [{"broker_id": one, "broker_epoch": epoch} for one, epoch in asked.in_sync.items()],
                        "new_isr": list(asked.in_sync),
                        "leader_recovery_state": 0,
                        "partition_epoch": asked.base.partition_epoch,
                    }
                )
        by_id: dict[UUID | None, str] = {view_topics[name].topic_id: name for name in topics}
        fields: dict[str, object] = {
            "broker_id": self._node_id,
            "broker_epoch": self._broker_epoch(),
            "topics": [{"topic_id": topic_id, "partitions": topics[name]} for topic_id, name in by_id.items()],
        }
        return MessageRequest(ApiKey.ALTER_PARTITION, fields), by_id

    def _answered(self, name: TopicPartition, answer: "PartitionData") -> None:
        """Do what follows from the answer for one partition; what says nothing about what became of the change leaves it pending."""
        asked = self._asked.get(name)
        if asked is None or not asked.is_pending:
            self._asked.pop(name, None)
            return
        if answer.error_code in REFUSALS:
            del self._asked[name]
            self._resting[name] = asyncio.get_running_loop().time() + RETRY_S
            asked.leading.refused()
            return
        is_ours = (answer.leader_id, answer.leader_epoch) == (self._node_id, asked.base.leader_epoch)
        if answer.error_code or answer.partition_epoch < asked.base.partition_epoch:
            return
        if not is_ours:
            if answer.leader_epoch > asked.base.leader_epoch:
                del self._asked[name]
            return
        del self._asked[name]
        # Who is eligible is not in the answer. Whoever left may be: until the view says who is, the high watermark stands still for them.
        had_all = {*asked.base.in_sync_replicas, *asked.base.eligible_leaders}.difference(answer.isr)
        eligible = tuple(replica for replica in asked.base.replicas if replica in had_all)
        state = asked.base._replace(in_sync_replicas=tuple(answer.isr), eligible_leaders=eligible, partition_epoch=answer.partition_epoch)
        if answer.partition_epoch == asked.base.partition_epoch:
            asked.leading.replica_set.refused()  # it was so already: nothing is pending
        asked.leading.decided(state)
