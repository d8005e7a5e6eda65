"""The first batches of transactions in a Produce request: the coordinator is asked about them, and they are appended when it agrees.

The codes are those of Kafka: what may pass is NOT_ENOUGH_REPLICAS to clients, because all of them send the batch again at that, and look
for no other leader; CONCURRENT_TRANSACTIONS is left to clients that know what to do about it.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from millstream.broker.handlers.produce.produce_answer import Answering, Asked, Late
from millstream.broker.transactions.verification import NETWORK_EXCEPTION, PartitionCodes, TransactionSupport, TransactionVerification
from millstream.client.errors import kafka_error
from millstream.cluster.replicas import Replicas
from millstream.cluster.topic_access import Operation
from millstream.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
)
from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import ConcurrentTransactions, InvalidTxnState
from millstream.transactions.transaction import Producer
from millstream.wire.batch import read_header
from millstream.wire.records import ProducerStamp

if TYPE_CHECKING:
    from millstream.cluster.verifications import Verification

Place = tuple[int, int]
"""The numbers of topic and partition in the request."""
_MAY_PASS = frozenset({NETWORK_EXCEPTION, CoordinatorLoadInProgress.code, CoordinatorNotAvailable.code, NotCoordinator.code})


class Confirmed(NamedTuple):
    """A batch that the coordinator is asked about: whose it is, and what the leader of its partition remembers of the question."""

    name: TopicPartition
    producer: ProducerStamp
    verification: "Verification"


class RequestVerification:
    """The question to the coordinator about one request."""

    def __init__(self, asked_for: dict[Place, Confirmed], codes: asyncio.Future[PartitionCodes], support: TransactionSupport) -> None:
        self._asked_for = asked_for
        self._codes = codes
        self._support = support

    def covers(self, late: Late) -> bool:
        """Whether it is about this batch."""
        return late[:2] in self._asked_for

    async def confirmed(self, late: Late) -> Confirmed:
        """Wait for the coordinator; raises what a client is answered if it does not agree."""
        confirmed = self._asked_for[late[:2]]
        code = (await self._codes)[confirmed.name]
        if code:
            raise _as_produce_error(code, self._support)
        return confirmed


class ProduceVerification:
    """Asks coordinators about the batches of Produce requests."""

    def __init__(self, replicas: Replicas, verification: TransactionVerification) -> None:
        self._replicas = replicas
        self._verification = verification

    def begin(self, asked: Asked, answering: Answering, transactional_id: str) -> RequestVerification | None:
        """Ask about the batches that have to wait and begin a transaction; None if there is none. All of them are of one producer."""
        support = TransactionSupport.of_produce(asked.version)
        asked_for = dict(self._questions(asked, answering, support))
        if not asked_for:
            return None
        stamp = next(iter(asked_for.values())).producer
        producer = Producer(stamp.producer_id, stamp.producer_epoch)
        names = frozenset(one.name for one in asked_for.values())
        return RequestVerification(asked_for, self._verification.verify(transactional_id, producer, names, support), support)

    def _questions(self, asked: Asked, answering: Answering, support: TransactionSupport) -> Iterable[tuple[Place, Confirmed]]:
        for late in answering.late:
            header = read_header(late.batch)
            if late.refusal is not None or not header.is_transactional or header.producer_id < 0:
                continue
            name, topic_id, answers = answering.topics[late.topic]
            try:
                partition = self._replicas.partition_for(
                    asked.client, Operation.WRITE, topic_id if name is None else name, answers[late.partition].partition
                )
                leader = partition.as_leader()
            except KafkaError:
                continue  # It is looked for again, and refused, when its turn has come.
            if not leader.has_open_transaction(header.producer_id, header.producer_epoch):
                producer = ProducerStamp(header.producer_id, header.producer_epoch, header.base_sequence)
                verification = leader.begin_verification(producer, bumps_epochs=support.bumps_epochs)
                yield late[:2], Confirmed(TopicPartition(partition.topic, partition.index), producer, verification)


def _as_produce_error(code: int, support: TransactionSupport) -> KafkaError:
    if code == InvalidTxnState.code:
        error: KafkaError = InvalidTxnState("the partition is not part of an open transaction of this producer")
    elif code in _MAY_PASS or (code == ConcurrentTransactions.code and not support.bumps_epochs):
        error = NotEnoughReplicas(f"it could not be verified that the partition is part of the transaction (code {code}); send it again")
    else:
        error = kafka_error(code, "the coordinator of the transaction refused the partition")
    error.is_of_request = True
    return error
