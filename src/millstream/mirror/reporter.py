"""Says how the mirror is: to the topic `_mirror` at the target, every few seconds, and to whoever listens in this process."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from uuid import uuid4

from millstream.clock import SystemClock
from millstream.errors import MillstreamError
from millstream.mirror.engine import LAST_WORDS_S, Mirror
from millstream.mirror.mirror_topic import MirrorTopic, status_words
from millstream.mirror.status import Meter, PartitionStatus, ProcessStatus

logger = logging.getLogger(__name__)

REPORT_S: Final = 2.0

OnReport = Callable[[ProcessStatus, list[PartitionStatus]], None]


class Reporter:
    """The status of one process."""

    def __init__(self, mirror: Mirror, *, on_report: OnReport | None = None) -> None:
        self._mirror = mirror
        self._topic = MirrorTopic(mirror.target)
        self._meter = Meter()
        self._clock = SystemClock()
        self._member = uuid4().hex[:12]
        self._host = f"{socket.gethostname()}:{os.getpid()}"
        self._on_report = on_report

    async def run(self) -> None:
        """Report until this is cancelled, and then once more."""
        try:
            while True:
                await asyncio.sleep(REPORT_S)
                await self.report("running")
        except asyncio.CancelledError:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS_S):
                    await self.report("ended")
            raise

    async def report(self, state: str) -> None:
        """Say it now; where it cannot be written it is only shown."""
        mirror, settings = self._mirror, self._mirror.settings
        now_ms = self._clock.now_ms()
        process = ProcessStatus(
            settings.name,
            self._member,
            str(mirror.source),
            str(mirror.target),
            settings.topics,
            self._host,
            now_ms,
            state,
            dict(mirror.keeper.refused),
            mirror.error,
        )
        partitions = self._meter.measure(mirror.copies, now_ms=now_ms)
        if self._on_report is not None:
            self._on_report(process, partitions)
        if mirror.target.cluster_id:
            try:
                await self._topic.write(status_words(process, partitions), now_ms=now_ms)
            except MillstreamError as error:
                logger.debug("the status is written later: %s", error)
