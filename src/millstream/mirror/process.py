"""One mirror process: puts together what it takes, in reading order, and runs it until it is cancelled.

sides          the two clusters, each with its security
share          which partitions are ours: all, or what a group at the source says
engine         copies
reporter       says how it goes, in the topic `_mirror` at the target
pauses         obeys what that topic says is paused
group offsets  copied every few seconds for what we copy
"""

import asyncio
import logging
from typing import Final

from millstream.address import Address
from millstream.client.async_connection import AsyncConnection
from millstream.client.security import NO_SECURITY, ClientSecurity
from millstream.errors import MillstreamError
from millstream.mirror.engine import Mirror
from millstream.mirror.group_copier import GroupCopier
from millstream.mirror.group_share import GroupShare
from millstream.mirror.mirror_topic import MirrorTopic
from millstream.mirror.paused_topics import PausedTopics
from millstream.mirror.reporter import OnReport, Reporter
from millstream.mirror.settings import MirrorSettings
from millstream.mirror.side import CLIENT_ID, TIMEOUT_S, Side

logger = logging.getLogger(__name__)

PAUSES_S: Final = 1.0
"""Time between two looks at what is paused."""
GROUPS_S: Final = 5.0
"""Time between two copies of group offsets."""


class MirrorProcess:
    """Made on the event loop that it runs on."""

    def __init__(
        self,
        settings: MirrorSettings,
        *,
        source_security: ClientSecurity = NO_SECURITY,
        target_security: ClientSecurity = NO_SECURITY,
        on_report: OnReport | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._settings = settings
        self._securities = source_security, target_security
        self._share = None
        if not settings.alone:
            self._share = GroupShare(
                settings.source,
                group=settings.group,
                security=source_security,
                on_change=lambda: loop.call_soon_threadsafe(self._mirror.look_again),
            )
        source, target = secured_side(settings.source, source_security), secured_side(settings.target, target_security)
        self._mirror = Mirror(settings, source, target, assignment=self._share)
        self._reporter = Reporter(self._mirror, on_report=on_report)
        self._words = MirrorTopic(target)

    async def run(self) -> None:
        """Mirror until this is cancelled."""
        await self._obey_pauses()
        if self._share is not None:
            self._share.start()
        beside = [self._reporter.run(), self._keep_obeying()]
        if self._settings.groups:
            beside.append(self._copy_groups())
        try:
            await self._mirror.run(*beside)
        finally:
            if self._share is not None:
                await asyncio.to_thread(self._share.stop)

    async def _keep_obeying(self) -> None:
        while True:
            await asyncio.sleep(PAUSES_S)
            await self._obey_pauses()

    async def _obey_pauses(self) -> None:
        try:
            self._mirror.copies.pause(PausedTopics(self._settings.name, await self._words.read()).is_paused)
        except MillstreamError as error:
            logger.debug("what is paused is read later: %s", error)

    async def _copy_groups(self) -> None:
        source_security, target_security = self._securities
        copier = GroupCopier(self._settings.source, self._settings.target, source_security=source_security, target_security=target_security)
        while True:
            await asyncio.sleep(GROUPS_S)
            ends = {copy.name: copy.confirmed_to for copy in self._mirror.copies if copy.confirmed_to >= 0}
            try:
                await asyncio.to_thread(copier.copy, ends)
            except MillstreamError as error:
                logger.debug("the offsets of groups are copied later: %s", error)


def secured_side(servers: str, security: ClientSecurity) -> Side:
    """A cluster that is reached with this security."""

    async def open_connection(address: Address) -> AsyncConnection:
        return await AsyncConnection.open(address, client_id=CLIENT_ID, timeout_s=TIMEOUT_S, security=security)

    return Side(servers, open_connection=open_connection)
