"""ListOffsets (2), OffsetForLeaderEpoch (23), DeleteRecords (21): questions about offsets, and moving the start of a log.

ListOffsets 1-11. 2: isolation level. 4: leader epoch. 7: max timestamp (-3, KIP-734). 8: earliest local (-4). 9: last tiered (-5).
10: the client's timeout. 11: earliest pending upload (-6). Without tiered storage everything is local and nothing is tiered.
A new leader does not know yet how far its partition is committed: until its high watermark has reached what it began with, the end is
not available (KIP-207; LEADER_NOT_AVAILABLE before version 5), nor is a time that is not found before it. A follower asks for the log end.
A time is looked for in the log, a slice of it per turn of the loop for all who ask together (`TurnBudget`): most searches end within their
first slice, and the answer goes out at once; the others go on turn by turn, and decompress in a thread.
OffsetForLeaderEpoch 2-4. 3: replica id. 4: flexible.
DeleteRecords 0-2. 2: flexible. It is answered when all replicas that are there have followed, or the client's time is up.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from millstream.broker.failures import as_kafka_error
from millstream.broker.network.api import Fields, Later, Request, api
from millstream.broker.network.session import Session
from millstream.broker.storage.turn_budget import TurnBudget
from millstream.broker.storage.unfolding import Unfolding
from millstream.cluster.leader import Leader
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.cluster.topic_access import Operation
from millstream.cluster.watermark import Watermark
from millstream.errors import InvalidRequest, LeaderNotAvailable, OffsetNotAvailable, PolicyViolation, RequestTimedOut, UnsupportedVersion
from millstream.log.records.timestamp_search import LargestTimestampSearch, OffsetSearch, StoredBatch, TimestampSearch
from millstream.offset import EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD, LATEST, LATEST_TIERED, MAX_TIMESTAMP
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.delete_records import DeleteRecordsRequest
    from millstream.wire.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest
    from millstream.wire.requests.offset_for_leader_epoch import OffsetForLeaderEpochRequest

FIRST_WITH_NOT_AVAILABLE = 5
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

Found = tuple[int, int, int]
"""Timestamp, offset, leader epoch."""
NOTHING: Found = (-1, -1, -1)
Answer = dict[str, object]

UNITS_PER_TURN = 500
"""Batch headers and records that all searches together look at in one turn of the loop: a millisecond at most."""
LOAD_UNITS = 50
"""What it costs to read a small batch and to check its CRC."""


class Search(NamedTuple):
    """A partition that is asked for a time, and where its answer goes; nothing from `end` on is shown."""

    answer: Answer
    partition: Partition
    offsets: OffsetSearch
    end: int
    version: int


class Deletion(NamedTuple):
    """Records of which it is not known that all replicas have deleted them."""

    answer: Answer
    low_watermark: Watermark
    target: int


class OffsetsFamily:
    """Answers from the logs of the partitions this broker leads."""

    def __init__(self, replicas: Replicas, *, executor: Executor, units_per_turn: int = UNITS_PER_TURN) -> None:
        self._replicas = replicas
        self._unfolding = Unfolding(executor)
        self._turns = TurnBudget(units_per_turn)

    @api(ApiKey.LIST_OFFSETS, 1, 11)
    def list_offsets(self, request: Request) -> Fields | Later:
        """The offset for a time, or for one of the special times."""
        message: ListOffsetsRequest = request.decode()
        topics = []
        unfinished: list[Search] = []
        times_asked = Counter((topic.name, asked.partition_index) for topic in message.topics for asked in topic.partitions)
        for topic in message.topics:
            partitions = []
            for index, asked in {one.partition_index: one for one in topic.partitions}.items():
                answer: Answer = {"partition_index": index, "error_code": 0}
                partitions.append(answer)
                if times_asked[topic.name, index] > 1:
                    # As Kafka: a search in the log is not to be had a thousand times for the bytes of one request.
                    answer["error_code"] = InvalidRequest.code
                    continue
                with _errors_in(answer):
                    search = self._list_one(request, topic.name, asked, answer, message)
                    if search is not None and not self._go_on(search):
                        unfinished.append(search)
            topics.append({"name": topic.name, "partitions": partitions})
        fields = {"topics": topics}
        return self._finish(unfinished, fields) if unfinished else fields

    def _list_one(
        self, request: Request, topic: str, asked: "ListOffsetsPartition", answer: Answer, message: "ListOffsetsRequest"
    ) -> Search | None:
        """Answer what needs no search; the search for what does."""
        timestamp, version = asked.timestamp, request.api_version
        if version < _FIRST_VERSION.get(timestamp, 0) or timestamp < EARLIEST_PENDING_UPLOAD:
            raise UnsupportedVersion(f"timestamp {timestamp} is not known in version {version}")
        partition = self._replicas.partition_for(request.session, Operation.DESCRIBE, topic, asked.partition_index)
        leader = partition.as_leader(asked.current_leader_epoch)
        log = partition.log
        is_replica = message.replica_id >= 0 and leader.replica_set.is_follower(message.replica_id)
        end = leader.visible_end(message.isolation_level, is_replica=is_replica)
        if timestamp == LATEST:
            if not is_replica:
                _check_available(leader, version)
            _answer(answer, (-1, end, leader.leader_epoch))
        elif timestamp in (EARLIEST, EARLIEST_LOCAL):
            _answer(answer, (-1, log.log_start_offset, log.epoch_of(log.log_start_offset)))
        elif timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            _answer(answer, NOTHING)
        else:
            search: OffsetSearch = LargestTimestampSearch(from_offset=log.log_start_offset)
            if timestamp != MAX_TIMESTAMP:
                search = TimestampSearch(timestamp, from_offset=log.log_start_offset, limit_offset=end)
            return Search(answer, partition, search, end, version)
        return None

    def _go_on(self, search: Search) -> bool:
        """Search for as long as this turn of the loop allows, or until a batch has to be loaded; whether it is answered."""
        answer, partition, offsets, end, version = search
        while not offsets.is_done and self._turns.units > 0:
            if offsets.batch is None:
                before = self._turns.units
                self._turns.spend(before - partition.log.advance_search(offsets, before))
            elif offsets.batch.is_light:
                self._turns.spend(LOAD_UNITS)
                with partition.log.directory.guarded("reading a log"):
                    offsets.look_into(offsets.batch.load())
            else:
                return False
        if offsets.is_done:
            found = offsets.found
            if found is None or found.offset >= end:
                _check_available(partition.as_leader(), version)
                found = None
            _answer(answer, found or NOTHING)
        return offsets.is_done

    async def _finish(self, unfinished: Sequence[Search], fields: Fields) -> Fields:
        """Search on, turn by turn."""
        for search in unfinished:
            with _errors_in(search.answer):
                while not self._go_on(search):
                    batch = search.offsets.batch
                    if batch is None or batch.is_light:
                        await self._turns.wait()
                    else:
                        await self._go_through(batch, search)
        return fields

    async def _go_through(self, batch: StoredBatch, search: Search) -> None:
        """Let a thread read and decompress the batch that the search waits for, and go through its records."""
        with search.partition.log.directory.guarded("reading a log"):
            async with self._unfolding.unfolded(batch.header.record_count, batch.load) as payload:
                search.offsets.look_into(payload)
                await self._turns.wait()
                while search.offsets.is_inside_batch and not self._go_on(search):
                    await self._turns.wait()

    @api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4)
    def offset_for_leader_epoch(self, request: Request) -> Fields:
        """Where an epoch ended: the largest epoch not above the one asked for, and its end offset (KIP-101, KIP-279)."""
        message: OffsetForLeaderEpochRequest = request.decode()
        topics = []
        for topic in message.topics:
            partitions = []
            for asked in topic.partitions:
                try:
                    partition = self._replicas.partition_for(request.session, Operation.DESCRIBE, topic.topic, asked.partition)
                    partition.as_leader(asked.current_leader_epoch)
                    epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
                    answer = {"error_code": 0, "leader_epoch": epoch, "end_offset": end_offset}
                except Exception as error:
                    answer = {"error_code": as_kafka_error(error).code}
                partitions.append({"partition": asked.partition, **answer})
            topics.append({"topic": topic.topic, "partitions": partitions})
        return {"topics": topics}

    @api(ApiKey.DELETE_RECORDS, 0, 2)
    def delete_records(self, request: Request) -> Fields | Later:
        """Move the start of logs forward; -1 means up to the high watermark. Of a partition that is named twice the last offset counts."""
        message: DeleteRecordsRequest = request.decode()
        client = request.session
        waiting: list[Deletion] = []
        asked: dict[str, dict[int, int]] = {}
        for topic in message.topics:
            asked.setdefault(topic.name, {}).update((one.partition_index, one.offset) for one in topic.partitions)
        topics = [
            {
                "name": name,
                "partitions": [
                    self._delete_before(offset, name, index, client=client, waiting=waiting) for index, offset in offsets.items()
                ],
            }
            for name, offsets in asked.items()
        ]
        fields = {"topics": topics}
        return _until_deleted(waiting, fields, timeout_s=max(message.timeout_ms, 0) / 1000) if waiting else fields

    def _delete_before(self, offset: int, topic: str, index: int, *, client: Session, waiting: list[Deletion]) -> Answer:
        answer: Answer = {"partition_index": index, "low_watermark": -1, "error_code": 0}
        with _errors_in(answer):
            partition = self._replicas.partition_for(client, Operation.DELETE, topic, index)
            leader = partition.as_leader()
            if partition.log.config.is_compacted and not partition.log.config.is_deleted:
                raise PolicyViolation(f"{topic} is compacted, not deleted from (cleanup.policy); write tombstones instead")
            target, watermark = leader.delete_records_before(offset), leader.low_watermark
            if watermark.value >= target:
                answer["low_watermark"] = watermark.value
            else:
                waiting.append(Deletion(answer, watermark, target))
        return answer


async def _until_deleted(deletions: Sequence[Deletion], fields: Fields, *, timeout_s: float) -> Fields:
    """Wait until the records are gone from all replicas."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    for answer, watermark, target in deletions:
        with _errors_in(answer):
            try:
                async with asyncio.timeout_at(deadline):
                    await watermark.reached(target)
            except TimeoutError:
                raise RequestTimedOut("a replica has not deleted the records within the timeout of the request") from None
            finally:
                answer["low_watermark"] = watermark.value
    return fields


def _check_available(leader: Leader, version: int) -> None:
    """Raise unless it is known how far the partition is committed."""
    if not leader.is_committed_so_far:
        error = OffsetNotAvailable if version >= FIRST_WITH_NOT_AVAILABLE else LeaderNotAvailable
        raise error(f"how far {leader.log.topic_partition} is committed is not known yet in leader epoch {leader.leader_epoch}")


@contextmanager
def _errors_in(answer: Answer) -> Iterator[None]:
    """What goes wrong with one partition becomes its error code."""
    try:
        yield
    except Exception as error:
        answer["error_code"] = as_kafka_error(error).code


def _answer(answer: Answer, found: Found) -> None:
    answer["timestamp"], answer["offset"], answer["leader_epoch"] = found
