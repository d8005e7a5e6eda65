"""One merging process: `Merging` in a thread, and beside it, on the event loop, what every mirror process does.

reporter       says how it goes, in the topic `_mirror` at the target
pauses         obeys what that topic says is paused
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from millstream.client.security.client_security import NO_SECURITY, ClientSecurity
from millstream.errors import MillstreamError
from millstream.mirror.clusters.side import secured_side
from millstream.mirror.merging.merge_settings import MergeSettings
from millstream.mirror.merging.merged_partition import MergedPartition, MergedPartitions
from millstream.mirror.merging.merging import Merging
from millstream.mirror.settings import MirrorSettings
from millstream.mirror.status.mirror_topic import MirrorTopic
from millstream.mirror.status.pause_watch import PauseWatch
from millstream.mirror.status.reporter import OnReport, Reporter

logger = logging.getLogger(__name__)

_ENDS_S: Final = 1.0
"""How long a report waits for the source."""


class MergeProcess:
    """One process: `await MergeProcess(settings).run()`."""

    def __init__(
        self,
        settings: MirrorSettings,
        *,
        source_security: ClientSecurity = NO_SECURITY,
        target_security: ClientSecurity = NO_SECURITY,
        on_report: OnReport | None = None,
    ) -> None:
        self.settings = settings
        self.source = secured_side(settings.source, source_security)
        self.target = secured_side(settings.target, target_security)
        self._on_report = on_report
        self._partitions = MergedPartitions()
        self._work = Merging(
            MergeSettings(
                settings.source,
                settings.target,
                settings.pattern,
                settings.group,
                prefix=settings.prefix,
                exactly_once=settings.exactly_once,
                refresh_s=settings.refresh_s,
                commit_s=settings.commit_s,
                source_security=source_security,
                target_security=target_security,
            ),
            self._partitions,
        )

    async def run(self) -> None:
        """Merge until this is cancelled, or until `Merging` says that it cannot be."""
        pauses = PauseWatch(self.settings.name, MirrorTopic(self.target), self._work.pause)
        await pauses.look()
        beside = [asyncio.ensure_future(work) for work in (Reporter(self, on_report=self._on_report).run(), pauses.run())]
        working = asyncio.ensure_future(asyncio.to_thread(self._work.run))
        try:
            await asyncio.shield(working)
        finally:
            self._work.stop()
            await asyncio.wait([working])  # it commits what it has
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
            self.source.close()
            self.target.close()

    @property
    def error(self) -> str | None:
        """What is in the way of everything; None if nothing is."""
        return self._work.error

    @property
    def refused(self) -> Mapping[str, str]:
        """Topics that cannot be merged, and why."""
        return self._work.refused

    async def partitions(self) -> list[MergedPartition]:
        """The partitions that this process merges, with where the source ends now."""
        try:
            async with asyncio.timeout(_ENDS_S):
                await self.target.refresh()  # who leads `_mirror`
                await self.source.refresh()
                self._partitions.found_ends(await self.source.ends([one.name for one in self._partitions.now()]))
        except (MillstreamError, TimeoutError) as error:
            logger.debug("where the source ends is asked later: %s", error)
        return self._partitions.now()
