"""Fetches from one broker of the source what it leads of the mirrored partitions: one long poll for all of them, and the next one while the
target is still writing what the last one brought.

These are ordinary fetches of a consumer, by topic id: a topic that was made anew is not taken for the old one. They are of one session
(KIP-227), so that a thousand partitions of which one moves cost the source as much as one. Each position comes with the leader epoch of
the last batch, so that a source which lost records says so (`diverging_epoch`, KIP-595) instead of sending others in their place. Nothing
is fetched while enough is held, and no more than the limit allows. A small answer is followed by a short pause, in which more comes
together: a batch of one record costs as much as one of a thousand.
"""

import asyncio
import logging
from typing import Final

from millstream.byte_limit import ByteLimit
from millstream.client.codecs.fetch_session import FetchSession
from millstream.client.codecs.replica_fetch import ReplicaFetched, ReplicaFetchRequest, ReplicaKey, ReplicaWanted
from millstream.client.errors import is_retriable, kafka_error
from millstream.errors import MillstreamError, OffsetOutOfRange
from millstream.mirror.bell import Bell
from millstream.mirror.clusters.side import Side
from millstream.mirror.copying.copied_batches import whole_batches
from millstream.mirror.copying.copies import Copies
from millstream.mirror.copying.partition_copy import PartitionCopy
from millstream.mirror.trouble import Stopped

logger = logging.getLogger(__name__)

MAX_WAIT_MS: Final = 500
PARTITION_BYTES: Final = 1 << 20
FETCH_BYTES: Final = 8 << 20
SMALL_ANSWER_BYTES: Final = 64 << 10
LINGER_S: Final = 0.005
_IDLE_S: Final = 1.0
_TIMEOUT_S: Final = 10.0
_CONSUMER: Final = -1
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


class SourceReader:
    """The reader of one broker."""

    def __init__(self, broker_id: int, source: Side, copies: Copies, limit: ByteLimit, *, max_held_bytes: int) -> None:
        self._broker_id = broker_id
        self._source = source
        self._copies = copies
        self._limit = limit
        self._max_held_bytes = max_held_bytes
        self._loop = asyncio.get_running_loop()
        self._bell = copies.source_bells[broker_id] = Bell()
        self._session = FetchSession()
        self._asked: dict[ReplicaKey, tuple[int, int]] = {}
        """Position and last epoch of what is in the session."""

    async def run(self) -> None:
        """Read until this is cancelled."""
        pause_s = _FIRST_PAUSE_S
        while True:
            pause = self._limit.pause_s(now=self._loop.time())
            if pause:
                await asyncio.sleep(pause)
            wanted = self._wanted()
            if not wanted:
                await self._bell.wait(_IDLE_S)
                continue
            try:
                size = await self._fetch(wanted)
                pause_s = _FIRST_PAUSE_S
                if size < SMALL_ANSWER_BYTES:
                    await asyncio.sleep(LINGER_S)
            except MillstreamError as error:
                self._session.reset()
                logger.debug("nothing was fetched from broker %d of the source: %s", self._broker_id, error)
                self._fail_all(wanted, str(error))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _wanted(self) -> dict[ReplicaKey, PartitionCopy]:
        if self._copies.held_bytes >= self._max_held_bytes:
            return {}
        return {
            (topic.source.topic_id.bytes, index): copy
            for topic in self._copies.topics.values()
            for index, copy in topic.copies.items()
            if copy.source_leader == self._broker_id and copy.wants_fetch
        }

    async def _fetch(self, wanted: dict[ReplicaKey, PartitionCopy]) -> int:
        """One request and its answer; how many bytes it brought."""
        connection = await self._source.connection(self._broker_id, "fetch")
        answer = await connection.send(self._next_request(wanted), timeout_s=MAX_WAIT_MS / 1000 + _TIMEOUT_S)
        if answer.error_code:
            raise kafka_error(answer.error_code, "the source refused a Fetch")
        self._session.answered(answer.session_id)
        size = sum(len(found.records) for found in answer.partitions)
        self._limit.spend(size, now=self._loop.time())
        for found in answer.partitions:
            copy = wanted.get(found.key)
            # What was decided meanwhile (paused, begun again, led by another) counts more than the answer.
            if copy is not None and copy.wants_fetch and (copy.position, copy.last_epoch) == self._asked[found.key]:
                self._take(copy, found)
        return size

    def _next_request(self, wanted: dict[ReplicaKey, PartitionCopy]) -> ReplicaFetchRequest:
        """The session gets what came, moved on or went."""
        asked, session = self._asked, self._session
        for key in asked.keys() - wanted.keys():
            session.remove(key)
            del asked[key]
        for key, copy in wanted.items():
            place = (copy.position, copy.last_epoch)
            if asked.get(key) != place:
                asked[key] = place
                session.add(key)
        session_id, session_epoch, named, forgotten = session.next_request()
        most = self._limit.largest_read(PARTITION_BYTES)
        entries = [ReplicaWanted(*key, -1, *asked[key], log_start_offset=-1, max_bytes=most) for key in named]
        wait_ms = MAX_WAIT_MS if session.is_complete else 0
        max_bytes = self._limit.largest_read(FETCH_BYTES)
        return ReplicaFetchRequest(_CONSUMER, -1, session_id, session_epoch, entries, forgotten, wait_ms, min_bytes=1, max_bytes=max_bytes)

    def _take(self, copy: PartitionCopy, found: ReplicaFetched) -> None:
        try:
            if found.diverging_epoch is not None:
                epoch, end = found.diverging_epoch
                raise Stopped(
                    f"the source has lost offsets from {end} on (its leader epoch {epoch} ends there) that were already copied up to "
                    f"{copy.position} (an unclean election?); nothing is overwritten"
                )
            if found.error_code == OffsetOutOfRange.code and copy.last_epoch >= 0:
                copy.last_epoch = -1  # It may be the epoch that the source has forgotten, and not the offset.
                return
            if found.error_code:
                self._refused(copy, found.error_code)
                return
            pieces = whole_batches(found.records, copy.position, target_end=copy.fetched_to)
            copy.fetched(pieces, high_watermark=found.high_watermark, log_start=found.log_start_offset)
        except Stopped as error:
            logger.error("%s is not mirrored any further: %s", copy.name, error)
            copy.stop(str(error))
        else:
            if copy.has_batches:
                self._copies.call_writer(copy)

    def _refused(self, copy: PartitionCopy, error_code: int) -> None:
        """Begin again: that finds out whether the source deleted what was to be read, moved, or went back."""
        error = kafka_error(error_code, f"the source does not send offset {copy.position}")
        if not is_retriable(error_code) and error_code != OffsetOutOfRange.code:
            logger.warning("%s: %s; it is tried again", copy.name, error)
        self._copies.failed(copy, str(error), now=self._loop.time())

    def _fail_all(self, wanted: dict[ReplicaKey, PartitionCopy], reason: str) -> None:
        """The broker does not answer: what was fetched goes on its way, and where to go on is known; only the leaders may be others."""
        for copy in wanted.values():
            copy.error = reason
        self._copies.attention.ring()
