"""How the copying of a partition begins: where does the target end, and is what it has what the source has?

1. The target is asked where its log ends: that is where the copy goes on.
2. The source must not end before that, and the leader epoch of the last commit must not have ended before it: else the source lost records
   that were copied (an unclean election), or was restored from an old state.
3. What lies between the last commit and the end of the target is compared, batch by batch; at least the last one, and at most so much as
   is read in a moment. Of a compacted topic the last records are compared that both sides still have (`comparison`); where there are none
   only the leader epoch of the last commit says something.
4. What the source no longer has (retention) is left out, and said.
5. The audit counts what the target has and no report may have named: a process that was killed takes its last counts with it.
"""

import asyncio
import logging
from typing import Any, Final

from millstream.client.codecs.fetch import FetchFrom, FetchRequest
from millstream.client.codecs.mirror_append import MirrorAppend
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import kafka_error
from millstream.errors import KafkaError, OffsetOutOfRange
from millstream.mirror.clusters.side import Side
from millstream.mirror.copying.comparison import Compared, compare, compare_compacted
from millstream.mirror.copying.copies import Copies
from millstream.mirror.copying.mirrored_topic import MirroredTopic
from millstream.mirror.copying.partition_copy import PartitionCopy
from millstream.mirror.copying.progress import Committed, Progress
from millstream.mirror.trouble import Stopped
from millstream.offset import EARLIEST, LATEST
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey
from millstream.wire.batch import BatchHeader, split_batches
from millstream.wire.mirror_append import MirrorPartition, MirrorTopic, PartitionMirrored

logger = logging.getLogger(__name__)

MAX_COMPARED_BYTES: Final = 16 << 20
COMPARED_OFFSETS: Final = 1000
"""Of a compacted topic, up to the end of the target."""
_PIECE_BYTES: Final = 1 << 20
_ANY_END: Final = -1


class PartitionStart:
    """Begins copies."""

    def __init__(self, source: Side, target: Side, progress: Progress, copies: Copies) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._copies = copies

    async def begin(self, topic: MirroredTopic, copy: PartitionCopy) -> None:
        """Let the copy begin; raises what is in the way, for now or (`Stopped`) for good."""
        partition = copy.name
        at_target = await self._target_log(topic, partition)
        start = (await self._source.offsets({partition: EARLIEST}))[partition].offset
        end = (await self._source.offsets({partition: LATEST}))[partition].offset
        target_end = at_target.log_end_offset
        last_epoch = -1
        if target_end > 0:  # The history counts also where retention has left nothing of it at the target.
            committed = await self._progress.committed(partition)
            await self._check_history(partition, committed, target_end=target_end, source_end=end)
            if committed.offset == target_end:
                last_epoch = committed.leader_epoch
        if at_target.log_start_offset < target_end:
            first = max(start, at_target.log_start_offset)
            if topic.is_compacted:
                await self._compare_compacted(partition, max(first, target_end - COMPARED_OFFSETS), end=target_end)
            else:
                last_epoch = await self._compare(partition, committed.offset, first=first, end=target_end)
            if self._copies.audit is not None:
                self._copies.audit.found(partition, audited=committed.audited, start=at_target.log_start_offset, end=target_end)
        copy.begin(target_end=target_end, source_start=start, source_end=end, last_epoch=last_epoch)
        if 0 < target_end < start:
            logger.warning("%s: the source has deleted the offsets %d to %d before they were copied", partition, target_end, start - 1)

    async def _target_log(self, topic: MirroredTopic, partition: TopicPartition) -> PartitionMirrored:
        wanted = MirrorPartition(partition.partition, _ANY_END, memoryview(b""))
        request = MirrorAppend([MirrorTopic(topic.target_id.bytes, str(topic.source), [wanted])])
        [answered] = await self._target.ask_leader(partition, request)
        [answer] = answered.partitions
        if answer.error_code:
            raise kafka_error(answer.error_code, answer.error_message or "")
        return answer

    async def _check_history(self, partition: TopicPartition, committed: Committed, *, target_end: int, source_end: int) -> None:
        if target_end > source_end:
            raise Stopped(
                f"the target ends at {target_end} and the source at {source_end}: the source lost records that were already copied (an "
                "unclean election, an old disk?), or something else wrote to the target; nothing is overwritten"
            )
        if committed.leader_epoch < 0:
            return
        copied = min(committed.offset, target_end)
        epoch_end = await self._epoch_end(partition, committed.leader_epoch)
        if 0 <= epoch_end < copied:
            raise Stopped(
                f"the source has lost offsets from {epoch_end} on (leader epoch {committed.leader_epoch} ends there) that were copied "
                f"up to {copied} (an unclean election?); nothing is overwritten"
            )

    async def _epoch_end(self, partition: TopicPartition, epoch: int) -> int:
        """Where the epoch, or the last one before it that the source knows, ended there; -1 if it knows none."""
        wanted = {"partition": partition.partition, "current_leader_epoch": -1, "leader_epoch": epoch}
        fields = {"replica_id": -1, "topics": [{"topic": partition.topic, "partitions": [wanted]}]}
        request: MessageRequest[Any] = MessageRequest(ApiKey.OFFSET_FOR_LEADER_EPOCH, fields)
        answer = await self._source.ask_leader(partition, request)
        for topic in answer.topics:
            for found in topic.partitions:
                if found.error_code:
                    raise kafka_error(found.error_code, f"the source does not say where leader epoch {epoch} of {partition} ended")
                return int(found.end_offset)
        return -1

    async def _compare(self, partition: TopicPartition, committed: int, *, first: int, end: int) -> int:
        """Compare what both have before `end`, from the last commit on; the leader epoch of the last batch at the source."""
        position, left = max(min(committed, end - 1), first), MAX_COMPARED_BYTES
        if committed < 0:
            position = max(end - 1, first)
        epoch = -1
        while position < end:
            compared = await self._compare_at(partition, position, end=end)
            if compared is None:
                break
            left -= _PIECE_BYTES
            position, epoch = compared
            if left <= 0 and position < end - 1:
                position, left = end - 1, _PIECE_BYTES
        return epoch

    async def _compare_at(self, partition: TopicPartition, position: int, *, end: int) -> Compared | None:
        try:
            theirs = await self._batches(self._source, partition, position)
            ours = await self._batches(self._target, partition, position)
        except OffsetOutOfRange:
            return None  # Retention was quicker.
        return compare([header for header, _ in theirs], [header for header, _ in ours], end=end)

    async def _compare_compacted(self, partition: TopicPartition, position: int, *, end: int) -> None:
        """Compare the records that both still have before `end`, as far as one answer of each goes, and then the last ones."""
        for place in (position, end - 1):
            try:
                theirs = await self._batches(self._source, partition, place)
                ours = await self._batches(self._target, partition, place)
            except OffsetOutOfRange:
                return  # Retention was quicker.
            try:
                compared = await asyncio.to_thread(compare_compacted, theirs, ours, end=end)
            except KafkaError as error:
                logger.warning("%s: records before %d cannot be compared: %s", partition, end, error)
                return
            if compared is not None and compared.position == end:
                return

    async def _batches(self, side: Side, partition: TopicPartition, offset: int) -> list[tuple[BatchHeader, memoryview]]:
        wanted = FetchFrom(*partition, offset, max_bytes=_PIECE_BYTES)
        answer = await side.ask_leader(partition, FetchRequest([wanted], max_wait_ms=0))
        for error_code in (answer.error_code, *(found.error_code for found in answer.partitions)):
            if error_code:
                raise kafka_error(error_code, f"{partition} cannot be read at {side}")
        return [(header, memoryview(batch)) for found in answer.partitions for header, batch in split_batches(found.records)]
