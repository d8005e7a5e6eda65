"""Says how the mirror is: to the topic `_mirror` at the target, every few seconds, and to whoever listens in this process."""

import logging
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, Protocol
from uuid import uuid4

from millstream.clock import SystemClock
from millstream.errors import MillstreamError
from millstream.mirror.clusters.side import Side
from millstream.mirror.repeating import repeat
from millstream.mirror.settings import MirrorSettings
from millstream.mirror.status.mirror_topic import MirrorTopic, stale_keys, status_entries, topic_key
from millstream.mirror.status.status import ENDED, RUNNING, Measured, Meter, PartitionStatus, ProcessStatus

logger = logging.getLogger(__name__)

REPORT_S: Final = 2.0
STALE_MS: Final = 24 * 3_600_000
"""What a process said that has been silent for so long is deleted."""
_NOTHING: Final[dict[str, list[PartitionStatus]]] = {}

OnReport = Callable[[ProcessStatus, list[PartitionStatus]], None]


class Reported(Protocol):
    """A mirror process, whichever way it copies."""

    settings: MirrorSettings
    source: Side
    target: Side

    @property
    def error(self) -> str | None:
        """What is in the way of everything; None if nothing is."""

    @property
    def refused(self) -> Mapping[str, str]:
        """Topics that cannot be copied, and why."""

    async def partitions(self) -> Iterable[Measured]:
        """The partitions that it copies, as they are now."""


class Reporter:
    """The status of one process."""

    def __init__(self, mirror: Reported, *, on_report: OnReport | None = None) -> None:
        self._mirror = mirror
        self._topic = MirrorTopic(mirror.target)
        self._meter = Meter()
        self._clock = SystemClock()
        self._member = uuid4().hex[:12]
        self._host = f"{socket.gethostname()}:{os.getpid()}"
        self._on_report = on_report
        self._written = _NOTHING
        """What was written last of each topic."""

    async def run(self) -> None:
        """Report until this is cancelled, and then once more."""
        await repeat(partial(self.report, RUNNING), every_s=REPORT_S, last=partial(self.report, ENDED))

    async def report(self, state: str) -> None:
        """Say it now; where it cannot be written it is only shown."""
        mirror, settings = self._mirror, self._mirror.settings
        measured = await mirror.partitions()
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
            dict(mirror.refused),
            mirror.error,
        )
        partitions = self._meter.measure(measured, now_ms=now_ms)
        if self._on_report is not None:
            self._on_report(process, partitions)
        if mirror.target.cluster_id:
            try:
                await self._write(process, partitions)
            except MillstreamError as error:
                logger.debug("the status is written later: %s", error)

    async def _write(self, process: ProcessStatus, partitions: list[PartitionStatus]) -> None:
        """Write what has changed, and delete what is of no use any more: topics that went, processes that are long gone."""
        by_topic: dict[str, list[PartitionStatus]] = {}
        for one in partitions:
            by_topic.setdefault(one.topic, []).append(one)
        changed = [one for topic, own in by_topic.items() if self._written.get(topic) != own for one in own]
        entries: dict[str, bytes | None] = dict.fromkeys(topic_key(process, topic) for topic in self._written.keys() - by_topic.keys())
        if self._written is _NOTHING:
            entries |= dict.fromkeys(stale_keys(await self._topic.read(), process.name, before_ms=process.at_ms - STALE_MS))
        await self._topic.write(entries | status_entries(process, changed), now_ms=process.at_ms)
        self._written = by_topic
