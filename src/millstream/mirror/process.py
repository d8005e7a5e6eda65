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
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from millstream.client.security.client_security import NO_SECURITY, ClientSecurity
from millstream.coordination.ensemble.kazoo_adapter import KazooCoordination
from millstream.coordination.interface import Coordination
from millstream.errors import MillstreamError
from millstream.mirror.clusters.side import secured_side
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
from millstream.mirror.status.pause_watch import PauseWatch
from millstream.mirror.status.reporter import OnReport, Reporter
from millstream.zookeeper.errors import ConnectionLost, SessionExpired

logger = logging.getLogger(__name__)

GROUPS_S: Final = 5.0
"""Time between two copies of group offsets."""
_REST: Final = 4.0
"""So many times as long as a copy took, the next one waits at least."""

CopyOffsets = Callable[[Offsets], Awaitable[int]]


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
            pauses = PauseWatch(settings.name, MirrorTopic(target), lambda paused: mirror.copies.pause(paused.is_paused))
            await pauses.look()
            beside = [Reporter(mirror, on_report=self._on_report).run(), pauses.run()]
            if settings.groups:
                beside.append(self._copy_groups(GroupCopier(source, target).copy, mirror))
            if settings.groups and from_tree is not None and to_tree is not None:
                beside.append(self._copy_groups(PaperOffsets(from_tree, to_tree).copy, mirror))
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

    async def _copy_groups(self, copy: CopyOffsets, mirror: Mirror) -> None:
        """Copy again and again, with pauses that are longer the longer it takes: many groups do not use up the process."""
        loop = asyncio.get_running_loop()
        pause_s = GROUPS_S
        while True:
            await asyncio.sleep(pause_s)
            began = loop.time()
            try:
                await copy(_ends(mirror))
            except (MillstreamError, ConnectionLost, SessionExpired) as error:
                logger.debug("the offsets of groups are copied later: %s", error)
            pause_s = max(GROUPS_S, _REST * (loop.time() - began))


def _ends(mirror: Mirror) -> Offsets:
    return {copy.name: copy.confirmed_to for copy in mirror.copies if copy.confirmed_to >= 0}
