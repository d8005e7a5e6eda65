"""One mirror process: puts together what it takes, in reading order, and runs it until it is cancelled.

sides          the two clusters, each with its security; their ZooKeepers, where they are given
share          which partitions are ours: all, or what a group says (Kafka's, or the paper's in the source's ZooKeeper)
engine         copies
audit          counts what the target has, where a tier is named
reporter       says how it goes, in the topic `_mirror` at the target
pauses         obeys what that topic says is paused
group offsets  of both kinds, copied every few seconds for what we copy
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from millstream.address import Address
from millstream.client.async_connection import AsyncConnection
from millstream.client.security import NO_SECURITY, ClientSecurity
from millstream.coordination.interface import Coordination
from millstream.coordination.kazoo_adapter import KazooCoordination
from millstream.errors import MillstreamError
from millstream.mirror.clusters.side import CLIENT_ID, TIMEOUT_S, Side
from millstream.mirror.copying.audit_tier import AuditTier
from millstream.mirror.engine import Mirror
from millstream.mirror.groups.group_copier import GroupCopier
from millstream.mirror.groups.group_offsets import Offsets
from millstream.mirror.groups.paper_offsets import PaperOffsets
from millstream.mirror.settings import MirrorSettings
from millstream.mirror.sharing.assignment import Assignment, Everything
from millstream.mirror.sharing.group_share import SESSION_TIMEOUT_MS, GroupShare
from millstream.mirror.sharing.paper_share import PaperShare
from millstream.mirror.status.mirror_topic import MirrorTopic
from millstream.mirror.status.paused_topics import PausedTopics
from millstream.mirror.status.reporter import OnReport, Reporter
from millstream.zookeeper.errors import ConnectionLost, SessionExpired

logger = logging.getLogger(__name__)

PAUSES_S: Final = 1.0
"""Time between two looks at what is paused."""
GROUPS_S: Final = 5.0
"""Time between two copies of group offsets."""


class MirrorProcess:
    """One process: `await MirrorProcess(settings).run()`."""

    def __init__(
        self,
        settings: MirrorSettings,
        *,
        source_security: ClientSecurity = NO_SECURITY,
        target_security: ClientSecurity = NO_SECURITY,
        on_report: OnReport | None = None,
    ) -> None:
        self._settings = settings
        self._source_security, self._target_security = source_security, target_security
        self._on_report = on_report

    async def run(self) -> None:
        """Mirror until this is cancelled."""
        settings = self._settings

        def look_again() -> None:
            mirror.look_again()

        async with AsyncExitStack() as stack:
            from_tree, to_tree = [await self._tree(stack, hosts) for hosts in (settings.from_zookeeper, settings.to_zookeeper)]
            source = secured_side(settings.source, self._source_security)
            target = secured_side(settings.target, self._target_security)
            share = await stack.enter_async_context(self._share(from_tree, look_again))
            mirror = Mirror(settings, source, target, assignment=share)
            if settings.audit:
                mirror.copies.audit = self._audit(stack, mirror)
            words = MirrorTopic(target)
            await self._obey_pauses(mirror, words)
            beside = [Reporter(mirror, on_report=self._on_report).run(), self._keep_obeying(mirror, words)]
            if settings.groups:
                beside.append(self._copy_groups(mirror))
            if settings.groups and from_tree is not None and to_tree is not None:
                beside.append(self._copy_paper_groups(mirror, PaperOffsets(from_tree, to_tree)))
            await mirror.run(*beside)

    def _audit(self, stack: AsyncExitStack, mirror: Mirror) -> AuditTier:
        tier = AuditTier(
            self._settings.audit,
            self._settings.source,
            target_cluster=lambda: mirror.target.cluster_id,
            progress_ms=mirror.copies.progress_ms,
            security=self._source_security,
        )
        stack.push_async_callback(asyncio.to_thread, tier.close)
        return tier

    async def _tree(self, stack: AsyncExitStack, hosts: str) -> Coordination | None:
        if not hosts:
            return None
        tree = await KazooCoordination.connect(hosts, session_timeout_ms=SESSION_TIMEOUT_MS)
        stack.push_async_callback(tree.close)
        return tree

    @asynccontextmanager
    async def _share(self, tree: Coordination | None, on_change: Callable[[], None]) -> AsyncIterator[Assignment]:
        """What says which partitions are ours, from the time on when it does."""
        settings, loop = self._settings, asyncio.get_running_loop()
        if settings.alone:
            yield Everything()
        elif tree is not None:
            paper_share = PaperShare(tree, group=settings.group, process=f"{socket.gethostname()}-{os.getpid()}", on_change=on_change)
            following = loop.create_task(paper_share.run())
            try:
                yield paper_share
            finally:
                following.cancel()
        else:
            share = GroupShare(
                settings.source,
                group=settings.group,
                security=self._source_security,
                on_change=lambda: loop.call_soon_threadsafe(on_change),
            )
            share.start()
            try:
                yield share
            finally:
                await asyncio.to_thread(share.stop)

    async def _keep_obeying(self, mirror: Mirror, words: MirrorTopic) -> None:
        while True:
            await asyncio.sleep(PAUSES_S)
            await self._obey_pauses(mirror, words)

    async def _obey_pauses(self, mirror: Mirror, words: MirrorTopic) -> None:
        try:
            mirror.copies.pause(PausedTopics(self._settings.name, await words.read()).is_paused)
        except MillstreamError as error:
            logger.debug("what is paused is read later: %s", error)

    async def _copy_groups(self, mirror: Mirror) -> None:
        settings = self._settings
        copier = GroupCopier(settings.source, settings.target, source_security=self._source_security, target_security=self._target_security)
        while True:
            await asyncio.sleep(GROUPS_S)
            try:
                await asyncio.to_thread(copier.copy, _ends(mirror))
            except MillstreamError as error:
                logger.debug("the offsets of groups are copied later: %s", error)

    async def _copy_paper_groups(self, mirror: Mirror, offsets: PaperOffsets) -> None:
        while True:
            await asyncio.sleep(GROUPS_S)
            try:
                await offsets.copy(_ends(mirror))
            except (ConnectionLost, SessionExpired) as error:
                logger.debug("the offsets of the paper's groups are copied later: %s", error)


def _ends(mirror: Mirror) -> Offsets:
    return {copy.name: copy.confirmed_to for copy in mirror.copies if copy.confirmed_to >= 0}


def secured_side(servers: str, security: ClientSecurity) -> Side:
    """A cluster that is reached with this security."""

    async def open_connection(address: Address) -> AsyncConnection:
        return await AsyncConnection.open(address, client_id=CLIENT_ID, timeout_s=TIMEOUT_S, security=security)

    return Side(servers, open_connection=open_connection)
