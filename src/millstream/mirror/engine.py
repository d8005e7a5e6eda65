"""The mirror: puts its parts together, in reading order, and runs them until it is cancelled.

    topic_keeper    which topics and partitions there are, and who leads them            every few seconds, and when something failed
    partition_start where each partition begins                                          at the start and after each failure
    source_reader   one for each broker of the source that leads something
    target_writer   one for each broker of the target that leads something
    progress        commits how far it has come                                          every few seconds

Whatever may pass is tried again, for as long as it takes; what cannot be mirrored is reported and left alone. Only a mistake in its
settings ends it (`UsageError`).
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final

from millstream.byte_limit import ByteLimit
from millstream.client.codecs.metadata import NO_LEADER
from millstream.errors import MillstreamError, PolicyViolation, UsageError
from millstream.mirror.clusters.side import Side
from millstream.mirror.copying.copies import Copies
from millstream.mirror.copying.partition_copy import PartitionCopy, Phase
from millstream.mirror.copying.partition_start import PartitionStart
from millstream.mirror.copying.progress import Committed, Progress
from millstream.mirror.copying.source_reader import SourceReader
from millstream.mirror.copying.target_writer import TargetWriter
from millstream.mirror.repeating import repeat
from millstream.mirror.settings import MirrorSettings
from millstream.mirror.sharing.assignment import Assignment, Everything
from millstream.mirror.topics.topic_keeper import TopicKeeper
from millstream.mirror.trouble import Stopped

logger = logging.getLogger(__name__)

_SOONEST_LOOK_S: Final = 0.3
"""Time between two looks when something failed."""
_BEGUN_AT_ONCE: Final = 32
_ENDS_S: Final = 1.0
"""How long a report waits for the ends of what is not fetched."""


class Mirror:
    """One mirror process: `await Mirror(settings, source, target).run()`."""

    def __init__(
        self,
        settings: MirrorSettings,
        source: Side,
        target: Side,
        *,
        assignment: Assignment | None = None,
    ) -> None:
        self.settings = settings
        self.source = source
        self.target = target
        self.copies = Copies()
        self.progress = Progress(source, settings.group)
        self.keeper = TopicKeeper(source, target, self.copies, settings=settings, assignment=assignment or Everything())
        self.error: str | None = None
        """What is in the way of everything; None if nothing is."""
        self._loop = asyncio.get_running_loop()
        self._limit = ByteLimit(settings.limit_bytes, now=self._loop.time())
        self._start = PartitionStart(source, target, self.progress, self.copies)
        self._begun_at_once = asyncio.Semaphore(_BEGUN_AT_ONCE)

    async def run(self, *beside: Coroutine[Any, Any, None]) -> None:
        """Mirror until this is cancelled; what runs beside it ends with it, and may use its sides until then."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for work in (repeat(self._commit, every_s=self.settings.commit_s, last=self._commit), *beside):
                    tasks.create_task(work)
                await self._keep_looking(tasks)
        except* UsageError as group:
            raise group.exceptions[0] from None
        finally:
            self.source.close()
            self.target.close()

    @property
    def refused(self) -> Mapping[str, str]:
        """Topics that cannot be mirrored, and why."""
        return self.keeper.refused

    async def partitions(self) -> list[PartitionCopy]:
        """The partitions that this process copies; where the source ends is asked for those that are not fetched."""
        unread = [copy for copy in self.copies if copy.is_paused or copy.phase is Phase.STOPPED]
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDS_S):
                ends = await self.source.ends([copy.name for copy in unread])
                for copy in unread:
                    copy.source_end = ends.get(copy.name, copy.source_end)
        return list(self.copies)

    def look_again(self) -> None:
        """Something changed that a look at the topics would find."""
        self.copies.attention.ring()

    async def _keep_looking(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            looked_at = self._loop.time()
            await self._look(tasks)
            await asyncio.sleep(_SOONEST_LOOK_S)
            retries = [copy.retry_at for copy in self.copies if copy.phase is Phase.STARTING]
            next_look = min([looked_at + self.settings.refresh_s, *retries])
            await self.copies.attention.wait(max(next_look - self._loop.time(), 0.0))

    async def _look(self, tasks: asyncio.TaskGroup) -> None:
        try:
            await self.keeper.look()
            self.error = None
        except UsageError:
            raise
        except MillstreamError as error:
            if self.error != str(error):
                logger.warning("nothing new is found out for now, and it is tried again: %s", error)
            self.error = str(error)
            return
        for broker_id in {copy.source_leader for copy in self.copies} - {NO_LEADER, *self.copies.source_bells}:
            reader = SourceReader(broker_id, self.source, self.copies, self._limit, max_held_bytes=self.settings.max_held_bytes)
            tasks.create_task(reader.run())
        for broker_id in {copy.target_leader for copy in self.copies} - {NO_LEADER, *self.copies.target_bells}:
            tasks.create_task(TargetWriter(broker_id, self.target, self.copies).run())
        now = self._loop.time()
        due = [copy for copy in self.copies if copy.phase is Phase.STARTING and copy.retry_at <= now]
        await asyncio.gather(*(self._begin(copy) for copy in due))

    async def _begin(self, copy: PartitionCopy) -> None:
        async with self._begun_at_once:
            topic = self.copies.topics[copy.name.topic]
            try:
                await self._start.begin(topic, copy)
            except (Stopped, PolicyViolation) as error:
                logger.error("%s is not mirrored: %s", copy.name, error)
                copy.stop(str(error))
            except MillstreamError as error:
                logger.debug("%s does not begin for now: %s", copy.name, error)
                copy.failed(str(error), now=self._loop.time())
            else:
                logger.info("%s is copied from offset %d on", copy.name, copy.position)
                self.copies.call_reader(copy)

    async def _commit(self) -> None:
        audit = self.copies.audit
        reached = {
            copy.name: Committed(copy.confirmed_to, copy.confirmed_epoch, -1 if audit is None else audit.audited_to(copy.name))
            for copy in self.copies
        }
        try:
            await self.progress.commit(reached)
        except MillstreamError as error:
            logger.debug("the progress is committed later: %s", error)
