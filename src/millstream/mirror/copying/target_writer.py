"""Appends to one broker of the target what was fetched of the partitions it leads: several requests under way, one after the other.

A request takes what waits of as many partitions as it may hold. The next one follows before the first is answered, and expects the log to
end where the first one leaves it: if that fails, the next ones are refused, too, and the partition begins again where the log really ends.
"""

import asyncio
import logging
from functools import partial
from typing import Final

from millstream.client.async_connection import AsyncConnection
from millstream.client.codecs.mirror_append import MirrorAppend
from millstream.client.errors import kafka_error
from millstream.errors import MillstreamError, PolicyViolation
from millstream.mirror.bell import Bell
from millstream.mirror.clusters.side import Side
from millstream.mirror.copying.copies import Copies
from millstream.mirror.copying.partition_copy import Append, PartitionCopy
from millstream.wire.mirror_append import MirrorPartition, MirrorTopic, PartitionMirrored, TopicMirrored

logger = logging.getLogger(__name__)

REQUEST_BYTES: Final = 4 << 20
REQUEST_BATCHES: Final = 1000
"""The most that the target takes in one request (`broker.handlers.mirror`)."""
MAX_UNDER_WAY: Final = 4
"""Requests to one broker that are not answered."""
TIMEOUT_MS: Final = 20_000
_IDLE_S: Final = 1.0
_PAUSE_S: Final = 0.5

Taken = list[tuple[PartitionCopy, Append]]


class TargetWriter:
    """The writer to one broker."""

    def __init__(self, broker_id: int, target: Side, copies: Copies) -> None:
        self._broker_id = broker_id
        self._target = target
        self._copies = copies
        self._loop = asyncio.get_running_loop()
        self._bell = copies.target_bells[broker_id] = Bell()

    async def run(self) -> None:
        """Write until this is cancelled."""
        while True:
            if not self._is_work:
                await self._bell.wait(_IDLE_S)
                continue
            try:
                connection = await self._target.connection(self._broker_id, "append")
            except MillstreamError as error:
                logger.debug("broker %d of the target is not reached: %s", self._broker_id, error)
                self._copies.attention.ring()
                await asyncio.sleep(_PAUSE_S)
                continue
            if connection.unanswered >= MAX_UNDER_WAY:
                await self._bell.wait(_IDLE_S)
            elif taken := self._take():
                self._send(connection, taken)

    @property
    def _is_work(self) -> bool:
        return any(copy.target_leader == self._broker_id and copy.has_batches for copy in self._copies)

    def _take(self) -> Taken:
        """What fits into one request: at least one append, and of each partition at most one."""
        taken: Taken = []
        size_left, batches_left = REQUEST_BYTES, REQUEST_BATCHES
        for copy in self._copies:
            is_ours = copy.target_leader == self._broker_id and copy.has_batches
            if is_ours and (not taken or copy.fits(size_left, batches_left)):
                append = copy.take()
                size_left -= len(append.batches.records)
                batches_left -= append.batches.batch_count
                taken.append((copy, append))
        return taken

    def _send(self, connection: AsyncConnection, taken: Taken) -> None:
        by_topic: dict[str, list[MirrorPartition]] = {}
        for copy, append in taken:
            piece = MirrorPartition(copy.name.partition, append.expected_end, append.batches.records)
            by_topic.setdefault(copy.name.topic, []).append(piece)
        topics = []
        for name, pieces in by_topic.items():
            topic = self._copies.topics[name]
            topics.append(MirrorTopic(topic.target_id.bytes, str(topic.source), pieces))
        try:
            sent = connection.send(MirrorAppend(topics, timeout_ms=TIMEOUT_MS), timeout_s=TIMEOUT_MS / 1000 + _IDLE_S)
        except MillstreamError as error:
            self._fail(taken, str(error))
        else:
            sent.add_done_callback(partial(self._answered, taken))

    def _answered(self, taken: Taken, sent: "asyncio.Future[list[TopicMirrored]]") -> None:
        self._bell.ring()
        if sent.cancelled():
            return
        error = sent.exception()
        if error is not None:
            self._fail(taken, str(error))
            return
        answers = {(topic.topic_id, answer.partition): answer for topic in sent.result() for answer in topic.partitions}
        for copy, append in taken:
            topic = self._copies.topics.get(copy.name.topic)
            if topic is not None and copy.is_current(append):
                self._take_answer(copy, append, answers.get((topic.target_id.bytes, copy.name.partition)))

    def _take_answer(self, copy: PartitionCopy, append: Append, answer: PartitionMirrored | None) -> None:
        if answer is None:
            self._copies.failed(copy, "the target did not answer for it", now=self._loop.time())
        elif not answer.error_code:
            copy.confirmed(append)
            if self._copies.audit is not None:
                self._copies.audit.copied(copy.name, append.batches)
            self._copies.call_reader(copy)
        elif answer.error_code == PolicyViolation.code:
            logger.error("%s is not mirrored any further: %s", copy.name, answer.error_message)
            copy.stop(answer.error_message or "")
        else:
            error = kafka_error(answer.error_code, answer.error_message or "")
            logger.info("%s begins again: %s", copy.name, error)
            self._copies.failed(copy, str(error), now=self._loop.time())

    def _fail(self, taken: Taken, reason: str) -> None:
        """It is not known what was appended: the next start asks where the logs end."""
        for copy, append in taken:
            if copy.is_current(append):
                self._copies.failed(copy, reason, now=self._loop.time())
