"""How far a mirror is behind, asked from the source itself: right also while no process of the mirror runs and reports it.

Where the copy ends is the larger of what was reported and what is committed to the mirror's group at the source; where the source ends is
asked, and for what is missing the first batch of it: its time says how many seconds, its size about how many bytes.
"""

import asyncio
from dataclasses import replace
from typing import Final

from millstream.client.codecs.fetch import FetchFrom, FetchRequest
from millstream.errors import MillstreamError
from millstream.mirror.clusters.side import Side
from millstream.mirror.copying.progress import Committed, Progress
from millstream.mirror.group_names import progress_group
from millstream.mirror.status.status import MirrorStatus, PartitionStatus
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import HEADER_SIZE, BatchHeader, read_header

_ASKED_AT_ONCE: Final = 16
_MAX_BYTES: Final = 1 << 10
"""A broker sends a whole batch at least."""


class SourceLag:
    """Measures at one source."""

    def __init__(self, source: Side, *, now_ms: int) -> None:
        self._source = source
        self._now_ms = now_ms
        self._asked_at_once = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def measure(self, status: MirrorStatus) -> MirrorStatus:
        """The status with the lag of this moment; what is not of this source, or not known to it, stays as it was reported."""
        await self._source.refresh()
        committed = await Progress(self._source, progress_group(status.name)).all_committed()
        if not committed and all(process.source != str(self._source) for process in status.processes):
            return status
        ends = await self._source.ends([TopicPartition(one.topic, one.partition) for one in status.partitions])
        measured = await asyncio.gather(*(self._measure(one, committed, ends) for one in status.partitions))
        return replace(status, partitions=list(measured))

    async def _measure(
        self, reported: PartitionStatus, committed: dict[TopicPartition, Committed], ends: dict[TopicPartition, int]
    ) -> PartitionStatus:
        place = TopicPartition(reported.topic, reported.partition)
        position = max(reported.target_end, committed.get(place, Committed()).offset)
        if place not in ends or position < 0:
            return reported
        end = ends[place]
        lag = max(end - position, 0)
        lag_bytes: int | None = 0
        lag_seconds: float | None = 0.0
        if lag:
            header = await self._first_missing(place, position)
            lag_bytes = lag_seconds = None
            if header is not None:
                lag_bytes = lag * header.size_bytes // max(header.last_offset_delta + 1, 1)
                time_ms = header.max_timestamp if header.is_log_append_time else header.base_timestamp
                lag_seconds = max(self._now_ms - time_ms, 0) / 1000 if time_ms >= 0 else None
        return replace(reported, source_end=end, target_end=position, lag_messages=lag, lag_bytes=lag_bytes, lag_seconds=lag_seconds)

    async def _first_missing(self, place: TopicPartition, position: int) -> BatchHeader | None:
        """The header of the batch at `position`; None if the source does not send it for now."""
        request = FetchRequest([FetchFrom(*place, position, max_bytes=_MAX_BYTES)], max_wait_ms=0)
        async with self._asked_at_once:
            try:
                answer = await self._source.ask_leader(place, request)
            except MillstreamError:
                return None
        records = answer.partitions[0].records if answer.partitions else memoryview(b"")
        return read_header(records) if len(records) >= HEADER_SIZE else None
