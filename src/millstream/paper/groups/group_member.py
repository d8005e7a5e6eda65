"""One consumer's part in its group: it registers, watches, and divides the partitions by itself. There is no master.

Runs on an event loop in a thread of its own (see `consumer`), over the same interface to the coordination as a broker. Three things go on
side by side: following changes among brokers, partitions and consumers (`rebalance` decides and acts), storing offsets at an interval, and
renewing the lease of the streams. The lease is a question to ZooKeeper: while it has answered within a session timeout that our
registration is ours, no other consumer can own what we own.

When the session is lost the streams stop at once, and the claims are kept: in the next session each is taken again if no other has written
its offset meanwhile, and dropped otherwise.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from millstream.client.errors import BrokerUnavailable
from millstream.coordination import paths
from millstream.coordination.interface import Coordination, SessionState, WatchEvent
from millstream.errors import UnknownTopicOrPartition
from millstream.paper.errors import ConsumerIdTaken
from millstream.paper.groups.assignment import Subscription
from millstream.paper.groups.group_registry import GroupRegistry
from millstream.paper.groups.group_remarks import GroupRemarks
from millstream.paper.groups.group_view import GroupReader, GroupView
from millstream.paper.groups.rebalance import Rebalance, ask_brokers
from millstream.paper.settings import ConsumerSettings
from millstream.paper.start_offsets import Target, rewind_offsets
from millstream.paper.stream import MessageStream
from millstream.topic_partition import TopicPartition
from millstream.zookeeper.errors import ConnectionLost, NodeExists, SessionExpired

_log = logging.getLogger(__name__)

_SETTLE_S: Final = 0.02
"""Changes come in swarms: what comes within this time is dealt with together."""
_RETRY_S: Final = 1.0
_REMARK_S: Final = 1.0
"""Who has no partition for so long is not just about to get one."""
_LEASES_PER_SESSION: Final = 4
_AWAY = (ConnectionLost, SessionExpired)
"""ZooKeeper is away for now; the session's state says when it is back."""


class GroupMember:
    """A consumer of a group, from `join` to `leave`."""

    def __init__(
        self,
        coordination: Coordination,
        *,
        group: str,
        consumer_id: str,
        streams: Sequence[MessageStream],
        settings: ConsumerSettings,
        before_storing: Callable[[], None] | None = None,
    ) -> None:
        self._coordination = coordination
        self._group, self._consumer_id = group, consumer_id
        self._path = paths.consumer(group, consumer_id)
        self._streams = streams
        self._topics = list(dict.fromkeys(stream.topic for stream in streams))
        self._subscription = Subscription(
            {topic: sum(stream.topic == topic for stream in streams) for topic in self._topics},
            session_timeout_ms=round(settings.session_timeout_s * 1000),
        )
        self._settings = settings
        self._remarks = GroupRemarks(group=group, consumer_id=consumer_id, topics=self._topics)
        self._remark: asyncio.TimerHandle | None = None
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()
        self._registry = GroupRegistry(coordination, group, before_storing=before_storing)
        self._reader = GroupReader(coordination, group=group, topics=self._topics, on_change=self._wake.set)
        self._rebalance = Rebalance(self._registry, streams, settings=settings, writing=self._writing, on_free=self._wake.set)
        self._is_lease_good = False
        self._has_left = False
        coordination.add_session_listener(self._session_changed)

    async def join(self) -> None:
        """Register and take the first partitions; raises if there is no broker, no such topic, or another consumer of this id."""
        try:
            self._check(await self._reader.read())
            await self._registry.prepare(self._topics)
            await self._divide()
        except BaseException:
            # The end of the session, which follows, is nothing to speak of.
            self._has_left = True
            raise

    async def run(self) -> None:
        """Follow the group until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._keep_lease())
            if self._settings.auto_commit_interval_s is not None:
                tasks.create_task(self._commit_regularly(self._settings.auto_commit_interval_s))

    async def leave(self, *, holder: object) -> None:
        """Hand out nothing more, wait for what is in hand (but not for the caller itself), store the offsets, give up the partitions."""
        self._has_left = True
        if self._remark is not None:
            self._remark.cancel()
        try:
            await self._rebalance.give_up_all(holder=holder)
        except _AWAY as error:
            _log.warning("ZooKeeper is away at the end: what was handled since the last commit will be repeated (%s)", error)

    async def commit(self, *, holder: object = None) -> None:
        """Store what has been handled. Where another has written meanwhile nothing is stored, and the partition is taken anew."""
        async with self._writing:
            claims = {claim: stream for stream in self._streams for claim in stream.changed_claims(holder=holder)}
            for claim in await self._registry.store(list(claims)):
                _log.warning("%s: its offset was written by another consumer, and is read again", claim)
                claims[claim].take_away([claim.partition])
                await self._registry.release([claim] if claim.is_held else [])
                self._wake.set()

    async def rewind(self, topic: str, to: Target) -> dict[int, int]:
        """Let the streams of a topic go on from elsewhere, and store that at once; returns the new offsets."""
        streams = [stream for stream in self._streams if stream.topic == topic]
        owned = [TopicPartition(topic, partition) for stream in streams for partition in stream.claims()]
        if not owned:
            _log.warning(
                "rewind moved nothing: consumer %s owns no partition of %r now, and it rewinds only its own", self._consumer_id, topic
            )
            return {}
        brokers = (await self._reader.read()).bootstrap_servers
        offsets = await asyncio.to_thread(ask_brokers, brokers, lambda cluster: rewind_offsets(cluster, owned, to))
        for stream in streams:
            stream.move({partition: offset for (_, partition), offset in offsets.items() if partition in stream.claims()})
        await self.commit()
        return {partition: offset for (_, partition), offset in offsets.items()}

    # --- following

    async def _follow(self) -> None:
        while True:
            self._wake.clear()
            try:
                is_complete = await self._divide()
            except _AWAY as error:
                _log.info("the group waits for ZooKeeper to come back: %s", error)
                is_complete = False
            try:
                async with asyncio.timeout(None if is_complete else _RETRY_S):
                    await self._wake.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(_SETTLE_S)

    async def _divide(self) -> bool:
        """Register if need be, and own what should be owned; False if something is still to be waited for."""
        await self._register()
        view = await self._reader.read()
        for remark in self._remarks.on_topics(view.partitions):
            _log.warning("%s", remark)
        is_complete = await self._rebalance.apply(view)
        self._remark_later(view)
        if not self._is_lease_good:
            # Every claim has been taken in this session, or dropped.
            self._is_lease_good = True
            await self._renew_lease()
        return is_complete

    def _check(self, view: GroupView) -> None:
        if not view.brokers:
            raise BrokerUnavailable("no broker is registered in this ZooKeeper: start one, or name the ZooKeeper that the brokers use")
        for topic in self._topics:
            if topic not in view.partitions:
                raise UnknownTopicOrPartition(f"there is no topic {topic!r}: create it, for example with `millstream topic create {topic}`")

    def _remark_later(self, view: GroupView) -> None:
        """Say who has the partitions, unless this consumer has some by then or everything is different."""

        def remark() -> None:
            owned = {stream.topic for stream in self._streams if stream.claims()}
            for remark in self._remarks.on_partitions(view, owned):
                _log.warning("%s", remark)

        if self._remark is not None:
            self._remark.cancel()
        self._remark = asyncio.get_running_loop().call_later(_REMARK_S, remark)

    async def _register(self) -> None:
        deadline = monotonic() + self._settings.session_timeout_s * 1.5
        while True:
            stat = await self._coordination.exists(self._path)
            if stat is not None and stat.ephemeral_owner == self._coordination.session_id:
                return
            if stat is None:
                try:
                    await self._coordination.create(self._path, self._subscription.encode(), ephemeral=True)
                except NodeExists:
                    continue
                return
            if monotonic() > deadline:
                raise ConsumerIdTaken(
                    f"another consumer of the group {self._group!r} is called {self._consumer_id!r}: give each an id of its own, or none"
                )
            # Perhaps it is our own former life, whose session has yet to end.
            _log.warning(
                "another consumer of the group %r is called %r; if that was killed, its session ends within %g s: waiting for that",
                self._group,
                self._consumer_id,
                self._settings.session_timeout_s,
            )
            await self._until_gone(deadline)

    async def _until_gone(self, deadline: float) -> None:
        gone = asyncio.Event()

        def fired(_event: WatchEvent) -> None:
            gone.set()

        if await self._coordination.exists(self._path, watch=fired) is not None:
            try:
                async with asyncio.timeout(max(deadline - monotonic(), 0) + 0.05):
                    await gone.wait()
            except TimeoutError:
                return

    async def _commit_regularly(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.commit()
            except _AWAY as error:
                _log.info("offsets are stored when ZooKeeper is back: %s", error)

    # --- the lease

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(self._settings.session_timeout_s / _LEASES_PER_SESSION)
            try:
                await self._renew_lease()
            except _AWAY as error:
                _log.info("the lease of the streams cannot be renewed: %s", error)

    async def _renew_lease(self) -> None:
        # What counts is when the question was sent: ZooKeeper heard of us later than that.
        asked_at = monotonic()
        stat = await self._coordination.exists(self._path)
        if stat is None or stat.ephemeral_owner != self._coordination.session_id:
            self._wake.set()
        elif self._is_lease_good:
            for stream in self._streams:
                stream.renew(asked_at + self._settings.session_timeout_s)

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST and not self._has_left:
            _log.warning("the session of consumer %s was lost: its streams wait until it is in the group again", self._consumer_id)
            self._is_lease_good = False
            for stream in self._streams:
                stream.renew(0.0)
                for claim in stream.claims().values():
                    claim.is_held = False
        if state is SessionState.CONNECTED:
            self._reader.forget_watches()
            self._wake.set()
