"""Batches that cannot be appended in the callback in which they came, because their records have to be looked into and there are many.

Their connection is held meanwhile: what the client has sent behind them is not begun, so the order within each partition stays. The only
Produce requests that cost a task. A client that disconnects loses nothing: its batch is appended, as one that was received is in Kafka.

A batch that is refused for the time in its header comes here, too, from the version on in which its bad records are named (KIP-467).
"""

import logging
from collections.abc import Iterable
from functools import partial

from millstream.broker.failures import as_kafka_error
from millstream.broker.handlers.produce_answer import NO_ACKS, Answering, Asked, Late, finished
from millstream.broker.network.connection import Connection, PendingReply
from millstream.broker.storage.record_turns import RecordTurns, TakesLonger
from millstream.broker.tasks import Spawn
from millstream.buffer import Buffer
from millstream.clock import Clock
from millstream.cluster.leader import Leader
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.cluster.topic_access import Operation
from millstream.log.log import AppendResult
from millstream.log.records.record_check import CheckedBatch, RecordCheck
from millstream.wire.api import ApiKey
from millstream.wire.produce import PartitionProduced

logger = logging.getLogger(__name__)


class LateAppends:
    """Looks into batches, now or turn by turn, and appends them then."""

    def __init__(self, replicas: Replicas, clock: Clock, *, turns: RecordTurns, spawn: Spawn) -> None:
        self._replicas = replicas
        self._clock = clock
        self._turns = turns
        self._spawn = spawn

    def append_now(self, leader: Leader, batches: Iterable[Buffer], *, acks: int, now_ms: int) -> list[AppendResult | Exception]:
        """Look into batches and append them; those for which there is no time, and those behind them, have to be appended later."""
        results: list[AppendResult | Exception] = []
        is_behind = False
        for batch in batches:
            try:
                check = leader.begin_record_check(batch, acks=acks, now_ms=now_ms)
                if is_behind:
                    raise TakesLonger
                checked = None if check is None else self._turns.check_now(check)
                results.append(leader.append(batch, acks=acks, now_ms=now_ms, checked=checked))
            except Exception as error:
                is_behind = is_behind or isinstance(error, TakesLonger)
                results.append(error)
        return results

    def append_later(self, connection: Connection, asked: Asked, answering: Answering) -> None:
        """Append what is late, and answer; the connection handles nothing else until then."""
        kept_bytes = sum(len(late.batch) for late in answering.late)
        connection.hold(kept_bytes)
        self._spawn(self._append(connection, connection.defer(ApiKey.PRODUCE), asked, answering, kept_bytes=kept_bytes))

    async def _append(self, connection: Connection, pending: PendingReply, asked: Asked, answering: Answering, *, kept_bytes: int) -> None:
        try:
            for late in answering.late:
                answers = answering.topics[late.topic].partitions
                assert isinstance(answers, list)
                answers[late.partition] = await self._append_one(late, asked, answering)
            chunks = finished(connection, asked, answering, pending)
            if chunks is not None or asked.acks == NO_ACKS:
                pending.complete(chunks or ())
        except Exception:
            logger.exception("a Produce request from %s failed", connection.peer)
            connection.close("the broker failed on its request")
        finally:
            connection.release(kept_bytes)

    async def _append_one(self, late: Late, asked: Asked, answering: Answering) -> PartitionProduced:
        name, topic_id, answers = answering.topics[late.topic]
        key, index = topic_id if name is None else name, answers[late.partition].partition
        find = partial(self._replicas.partition_for, asked.client, Operation.WRITE, key, index)
        partition = None
        try:
            partition = find()
            if late.refusal is not None:
                await self._turns.check(RecordCheck.to_name_records(late.batch, config=partition.log.config, now_ms=self._clock.now_ms()))
                raise late.refusal
            checked = await self._looked_into(partition, late.batch, asked)
            # Meanwhile options may have changed, or the topic was deleted and another made under its name: then it is not good yet.
            while checked is not None and (partition := find()).log.config is not checked.config:
                checked = await self._looked_into(partition, late.batch, asked)
            leader = partition.as_leader()
            result = leader.append(late.batch, acks=asked.acks, now_ms=self._clock.now_ms(), checked=checked)
        except Exception as error:
            return answering.refused(index, as_kafka_error(error), partition)
        return answering.placed(index, result, partition, leader.watermark_for(asked.acks), place=(late.topic, late.partition))

    async def _looked_into(self, partition: Partition, batch: bytes, asked: Asked) -> CheckedBatch | None:
        """The batch as it is to be stored by the present options of the topic; None, at once, if it need not be looked into."""
        check = partition.as_leader().begin_record_check(batch, acks=asked.acks, now_ms=self._clock.now_ms())
        return None if check is None else await self._turns.check(check)
