"""Batches that cannot be appended in the callback in which they came: there are many records to look into, or a transaction begins.

Their connection is held meanwhile: what the client has sent behind them is not begun, so the order within each partition stays. The
requests of a run that have to wait do so in their order, in one task; the coordinator is asked about all of them at once. The only Produce
requests that cost a task. A client that disconnects loses nothing: its batch is appended, as one that was received is in Kafka.

A batch that is refused for the time in its header comes here, too, from the version on in which its bad records are named (KIP-467).
"""

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from millstream.broker.failures import as_kafka_error
from millstream.broker.handlers.produce.produce_answer import NO_ACKS, Answering, Asked, Late, finished, transactional_writes
from millstream.broker.network.connection import Connection, PendingReply
from millstream.broker.storage.record_turns import RecordTurns, TakesLonger
from millstream.broker.tasks import Spawn
from millstream.broker.transactions.verification import TransactionSupport, TransactionVerification
from millstream.buffer import Buffer
from millstream.clock import Clock
from millstream.cluster.leader import Leader
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.cluster.topic_access import Operation
from millstream.log.log import AppendResult
from millstream.log.producer_state import TransactionalWrites
from millstream.log.records.record_check import CheckedBatch, RecordCheck
from millstream.topic_partition import TopicPartition
from millstream.transactions.transaction import Producer
from millstream.wire.api import ApiKey
from millstream.wire.batch import read_header
from millstream.wire.produce import PartitionProduced
from millstream.wire.records import ProducerStamp

if TYPE_CHECKING:
    from millstream.broker.handlers.produce.produce_verification import ProduceVerification, RequestVerification

logger = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    """A request with batches that are late."""

    asked: Asked
    answering: Answering
    pending: PendingReply
    kept_bytes: int
    verification: "RequestVerification | None"


class LateAppends:
    """Looks into batches, now or turn by turn, and appends them then."""

    def __init__(
        self, replicas: Replicas, clock: Clock, *, verification: TransactionVerification, turns: RecordTurns, spawn: Spawn
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._verification = verification
        self._produce_verification: ProduceVerification | None = None
        self._turns = turns
        self._spawn = spawn
        self._waiting: dict[Connection, deque[_Waiting]] = {}
        """By connection, the oldest first; there is a task for each."""

    def append_now(
        self, leader: Leader, batches: Iterable[Buffer], *, acks: int, now_ms: int, transactional: TransactionalWrites
    ) -> list[AppendResult | Exception]:
        """Look into batches and append them; those for which there is no time, and those behind them, have to be appended later."""
        results: list[AppendResult | Exception] = []
        is_behind = False
        for batch in batches:
            try:
                check = leader.begin_record_check(batch, acks=acks, now_ms=now_ms)
                if is_behind:
                    raise TakesLonger
                checked = None if check is None else self._turns.check_now(check)
                results.append(leader.append(batch, acks=acks, now_ms=now_ms, checked=checked, transactional=transactional))
            except Exception as error:
                is_behind = is_behind or isinstance(error, TakesLonger)
                results.append(error)
        return results

    def begin_at_once(
        self, asked: Asked, partition: Partition, leader: Leader, batches: Sequence[Buffer], *, now_ms: int
    ) -> list[AppendResult | Exception] | None:
        """Append batches of one partition that begin a transaction, if this broker knows the partition as part of it.

        None if the coordinator has to be asked; nothing was appended then.
        """
        assert asked.transactional_id is not None
        header = read_header(batches[0])
        producer = ProducerStamp(header.producer_id, header.producer_epoch, header.base_sequence)
        name = TopicPartition(partition.topic, partition.index)
        if not self._verification.is_part(asked.transactional_id, Producer(producer.producer_id, producer.producer_epoch), name):
            return None
        bumps_epochs = TransactionSupport.of_produce(asked.version).bumps_epochs
        question = leader.begin_verification(producer, bumps_epochs=bumps_epochs)
        try:
            first: AppendResult | Exception = leader.append_verified(batches[0], producer, question, acks=asked.acks, now_ms=now_ms)
        except Exception as error:
            first = error
        rest = batches[1:]
        if not rest:
            return [first]
        return [first, *leader.append_run(rest, acks=asked.acks, now_ms=now_ms, transactional=TransactionalWrites.CONTINUED)]

    def append_later(self, connection: Connection, asked: Asked, answering: Answering) -> None:
        """Append what is late, and answer; the connection handles nothing else until then."""
        kept_bytes = sum(len(late.batch) for late in answering.late)
        connection.hold(kept_bytes)
        one = _Waiting(asked, answering, connection.defer(ApiKey.PRODUCE), kept_bytes, self._verify(asked, answering))
        waiting = self._waiting.get(connection)
        if waiting is None:
            self._waiting[connection] = deque((one,))
            self._spawn(self._append_in_order(connection))
        else:
            waiting.append(one)

    def _verify(self, asked: Asked, answering: Answering) -> "RequestVerification | None":
        """Ask the coordinator about batches that begin a transaction, if there are any."""
        if asked.transactional_id is None:
            return None
        if self._produce_verification is None:
            from millstream.broker.handlers.produce.produce_verification import ProduceVerification  # a broker starts sooner without it

            self._produce_verification = ProduceVerification(self._replicas, self._verification)
        return self._produce_verification.begin(asked, answering, asked.transactional_id)

    async def _append_in_order(self, connection: Connection) -> None:
        waiting = self._waiting[connection]
        try:
            while waiting:
                await self._append(connection, waiting.popleft())
        finally:
            del self._waiting[connection]

    async def _append(self, connection: Connection, waiting: "_Waiting") -> None:
        asked, answering, pending, kept_bytes, verification = waiting
        try:
            for late in answering.late:
                answers = answering.topics[late.topic].partitions
                assert isinstance(answers, list)
                answers[late.partition] = await self._append_one(late, asked, answering, verification)
            chunks = finished(connection, asked, answering, pending)
            if chunks is not None or asked.acks == NO_ACKS:
                pending.complete(chunks or ())
        except Exception:
            logger.exception("a Produce request from %s failed", connection.peer)
            connection.close("the broker failed on its request")
        finally:
            connection.release(kept_bytes)

    async def _append_one(
        self, late: Late, asked: Asked, answering: Answering, verification: "RequestVerification | None"
    ) -> PartitionProduced:
        name, topic_id, answers = answering.topics[late.topic]
        key, index = topic_id if name is None else name, answers[late.partition].partition
        find = partial(self._replicas.partition_for, asked.client, Operation.WRITE, key, index)
        partition = None
        try:
            partition = find()
            if late.refusal is not None:
                await self._turns.check(RecordCheck.to_name_records(late.batch, config=partition.log.config, now_ms=self._clock.now_ms()))
                raise late.refusal
            confirmed = await verification.confirmed(late) if verification is not None and verification.covers(late) else None
            partition = find()
            checked = await self._looked_into(partition, late.batch, asked)
            # Meanwhile options may have changed, or the topic was deleted and another made under its name: then it is not good yet.
            while checked is not None and (partition := find()).log.config is not checked.config:
                checked = await self._looked_into(partition, late.batch, asked)
            leader, now_ms = partition.as_leader(), self._clock.now_ms()
            if confirmed is None:
                transactional = transactional_writes(asked)
                result = leader.append(late.batch, acks=asked.acks, now_ms=now_ms, checked=checked, transactional=transactional)
            else:
                _, producer, question = confirmed
                result = leader.append_verified(late.batch, producer, question, acks=asked.acks, now_ms=now_ms, checked=checked)
        except Exception as error:
            return answering.refused(index, as_kafka_error(error), partition)
        return answering.placed(index, result, partition, leader.watermark_for(asked.acks), place=(late.topic, late.partition))

    async def _looked_into(self, partition: Partition, batch: bytes, asked: Asked) -> CheckedBatch | None:
        """The batch as it is to be stored by the present options of the topic; None, at once, if it need not be looked into."""
        if not partition.log.looks_into_records:
            return None
        check = partition.as_leader().begin_record_check(batch, acks=asked.acks, now_ms=self._clock.now_ms())
        return None if check is None else await self._turns.check(check)
