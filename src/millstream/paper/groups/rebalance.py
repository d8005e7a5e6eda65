"""The paper's rebalance, as one consumer carries it out whenever it has read the registries.

1. Compute which partitions each stream of this consumer should own (`assignment`).
2. Give up what it should not own any more: hand out nothing more from it, wait for the message in hand, store the offset, release it.
3. Take what it should own: read the stored offset, become the owner, start pulling from there. Where another still owns a partition, wait
   until it lets go; what has been taken is kept meanwhile, since every consumer gives up before taking, and so none waits in a circle.

What stays with a stream is not touched. The paper gives everything up first and takes it again, which comes to the same division.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from millstream.client.cluster import Cluster
from millstream.client.errors import BrokerUnavailable
from millstream.coordination.interface import WatchEvent
from millstream.errors import KafkaError
from millstream.paper.groups.assignment import assign_range, streams_of
from millstream.paper.groups.group_registry import Fenced, GroupRegistry
from millstream.paper.groups.group_view import GroupView
from millstream.paper.progress import Claim
from millstream.paper.settings import ConsumerSettings
from millstream.paper.start_offsets import read_ends, start_offset
from millstream.paper.stream import MessageStream
from millstream.topic_partition import TopicPartition

_log = logging.getLogger(__name__)

T = TypeVar("T")

_BROKER_TIMEOUT_S: Final = 5.0


class Rebalance:
    """Brings what the streams of a consumer own into line with what they should own."""

    def __init__(
        self,
        registry: GroupRegistry,
        streams: Sequence[MessageStream],
        *,
        settings: ConsumerSettings,
        writing: asyncio.Lock,
        on_free: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._streams = streams
        self._settings = settings
        self._writing = writing
        self._on_free = on_free

    async def apply(self, view: GroupView) -> bool:
        """Give up and take; False if something that should be owned is not: still another's, or its broker did not answer."""
        division = {topic: assign_range(partitions, streams_of(topic, view.subscriptions)) for topic, partitions in view.partitions.items()}
        wanted = {stream: set(division.get(stream.topic, {}).get(stream.stream_id, ())) for stream in self._streams}
        surplus = {stream: [partition for partition in stream.claims() if partition not in wanted[stream]] for stream in self._streams}
        await asyncio.gather(*(self._give_up(stream, partitions) for stream, partitions in surplus.items() if partitions))
        async with self._writing:
            await asyncio.gather(*(self._take_again(stream) for stream in self._streams))
            for stream in self._streams:
                stream.use_brokers(view.bootstrap_servers)
            missing = [(stream, partition) for stream in self._streams for partition in sorted(wanted[stream] - stream.claims().keys())]
            return not missing or await self._take_all(missing, view.bootstrap_servers)

    async def give_up_all(self, *, holder: object) -> None:
        """Own nothing any more; a message in the hands of `holder`, who asks for this, cannot be waited for."""
        await asyncio.gather(*(self._give_up(stream, list(stream.claims()), holder=holder) for stream in self._streams))

    async def _give_up(self, stream: MessageStream, partitions: Sequence[int], *, holder: object = None) -> None:
        claims = stream.take_away(partitions)
        if not stream.is_held_by(holder):
            await self._until_handled(stream, claims)
        async with self._writing:
            await self._store(claims)
            await self._registry.release([claim for claim in claims if claim.is_held])

    async def _store(self, claims: Sequence[Claim]) -> None:
        # Where storing is left to the application, only it knows what has been handled.
        if self._settings.auto_commit_interval_s is not None:
            await self._registry.store(claims)

    async def _until_handled(self, stream: MessageStream, claims: Sequence[Claim]) -> None:
        loop, handled = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            loop.call_soon_threadsafe(handled.set)

        waiting = [claim for claim in claims if stream.is_in_hand(claim)]
        if not waiting:
            return
        stream.when_handled(waiting[0], notify)
        try:
            async with asyncio.timeout(self._settings.handover_timeout_s):
                await handled.wait()
        except TimeoutError:
            _log.warning("%s goes to another consumer while one of its messages is in hand: it will be repeated there", waiting[0])

    async def _take_again(self, stream: MessageStream) -> None:
        """After a lost session: own again what no other has touched meanwhile, and forget the rest."""
        claims = [claim for claim in stream.claims().values() if not claim.is_held]
        attempts = [self._registry.take(claim, stream.stream_id, offset=self._offset_of(claim)) for claim in claims]
        taken = await asyncio.gather(*attempts, return_exceptions=True)
        dropped = [claim for claim, is_taken in zip(claims, taken, strict=True) if is_taken is not True]
        for error in taken:
            if isinstance(error, BaseException) and not isinstance(error, Fenced):
                raise error
        if dropped:
            stream.take_away([claim.partition for claim in dropped])
            # Where only the former session's znode is in the way, what was handled is still ours to store.
            await self._store(dropped)

    def _offset_of(self, claim: Claim) -> int:
        """What a claim that is taken again writes."""
        is_automatic = self._settings.auto_commit_interval_s is not None
        return claim.handled if is_automatic or claim.stored is None else claim.stored

    async def _take_all(self, missing: Sequence[tuple[MessageStream, int]], brokers: str) -> bool:
        partitions = [TopicPartition(stream.topic, partition) for stream, partition in missing]
        stored = await asyncio.gather(*(self._registry.stored(*partition) for partition in partitions))
        try:
            ends = await asyncio.to_thread(ask_brokers, brokers, lambda cluster: read_ends(cluster, partitions))
        except (BrokerUnavailable, KafkaError) as error:
            _log.warning("no partition can be taken before the brokers say where it begins and ends: %s", error)
            return False
        claims = [
            Claim(*partition, start=start_offset(one.offset, ends[partition], self._settings), version=one.version)
            for partition, one in zip(partitions, stored, strict=True)
        ]
        streams = [stream for stream, _ in missing]
        taken = await asyncio.gather(*(self._take(stream, claim) for stream, claim in zip(streams, claims, strict=True)))
        for stream in dict.fromkeys(streams):
            own = [claim for claim, owner, is_taken in zip(claims, streams, taken, strict=True) if is_taken and owner is stream]
            if own:
                stream.grant(own)
        return all(taken)

    async def _take(self, stream: MessageStream, claim: Claim) -> bool:
        try:
            if await self._registry.take(claim, stream.stream_id, offset=claim.handled):
                return True
        except Fenced:
            self._on_free()
            return False

        def fired(_event: WatchEvent) -> None:
            self._on_free()

        if not await self._registry.watch_owner(claim, fired):
            self._on_free()
        return False


def ask_brokers(brokers: str, question: Callable[[Cluster], T]) -> T:
    """Ask a cluster something, in the thread of the caller."""
    with Cluster(brokers, timeout_s=_BROKER_TIMEOUT_S) as cluster:
        return question(cluster)
