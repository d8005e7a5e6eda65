"""Asking the coordinator of a transactional id about partitions that a producer writes to (KIP-890).

A log takes the first batch of a transaction only when the coordinator knows the partition as a part of it: otherwise nothing would ever end
that transaction there. What is asked depends on the version of the client's request:

    DEFAULT_ERROR             is it part?      what may pass has codes that old clients try again at
    GENERIC_ERROR_SUPPORTED   is it part?      TRANSACTION_ABORTABLE is known
    ADD_PARTITION             make it part     the client does not add partitions itself (`transaction.version` 2)

The coordinator of this broker is called, another one gets AddPartitionsToTxn, together with what others ask it (`CoordinatorQuestions`).
Nothing here runs while an answer is awaited. A producer may be so quick that its last transaction is still being ended
(CONCURRENT_TRANSACTIONS): then the coordinator is asked again for a moment, before the client has to.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.peers import Peers
from millstream.broker.tasks import Spawn
from millstream.errors import InvalidProducerEpoch, KafkaError
from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import ConcurrentTransactions, InvalidTxnState, ProducerFenced, TransactionAbortable
from millstream.transactions.commands import AddPartitions, VerifyPartitions
from millstream.transactions.transaction import BUMPS_EPOCHS, Producer

if TYPE_CHECKING:
    from millstream.broker.transactions.coordinator_questions import CoordinatorQuestions

NETWORK_EXCEPTION: Final = 13
"""Kafka's code for a coordinator that could not be asked."""
_FIRST_PRODUCE_THAT_ADDS: Final = 12
_FIRST_PRODUCE_WITH_ABORTABLE: Final = 11
_FIRST_COMMIT_THAT_ADDS: Final = 5
_FIRST_COMMIT_WITH_ABORTABLE: Final = 4

PartitionCodes = dict[TopicPartition, int]
"""A code of Kafka's per partition; 0 if the partition is part of the transaction."""
Question = AddPartitions | VerifyPartitions
AskOwn = Callable[[Question, Callable[[PartitionCodes], None]], None]
"""Asks the coordinator of this broker; the answer may come at once."""
IsPart = Callable[[str, Producer, TopicPartition], bool]
"""Whether the coordinator of this broker knows a partition as part of the transaction of an id and a producer."""


class TransactionSupport(Enum):
    """What a client knows of transactions, by the version of its request; Kafka's names."""

    DEFAULT_ERROR = 0
    GENERIC_ERROR_SUPPORTED = 1
    ADD_PARTITION = 2

    @classmethod
    def of_produce(cls, version: int) -> "TransactionSupport":
        """That of the client that sent a Produce request."""
        if version >= _FIRST_PRODUCE_THAT_ADDS:
            return cls.ADD_PARTITION
        return cls.GENERIC_ERROR_SUPPORTED if version >= _FIRST_PRODUCE_WITH_ABORTABLE else cls.DEFAULT_ERROR

    @classmethod
    def of_offset_commit(cls, version: int) -> "TransactionSupport":
        """That of the client that sent a TxnOffsetCommit request."""
        if version >= _FIRST_COMMIT_THAT_ADDS:
            return cls.ADD_PARTITION
        return cls.GENERIC_ERROR_SUPPORTED if version >= _FIRST_COMMIT_WITH_ABORTABLE else cls.DEFAULT_ERROR

    @property
    def bumps_epochs(self) -> bool:
        """Whether each transaction has an epoch of its own."""
        return self is TransactionSupport.ADD_PARTITION


@dataclass(slots=True)
class _Asked:
    question: Question
    support: TransactionSupport
    answer: asyncio.Future[PartitionCodes]
    retries_end: float


class TransactionVerification:
    """Asks coordinators, here and on other brokers."""

    def __init__(
        self,
        *,
        node_id: int,
        coordinator_of: Callable[[str], int],
        ask_own: AskOwn,
        is_part: IsPart,
        peers: Peers,
        settings: LiveSettings,
        spawn: Spawn,
    ) -> None:
        """`coordinator_of`: the number of the broker that coordinates a transactional id; raises a KafkaError if there is none."""
        self._node_id = node_id
        self._coordinator_of = coordinator_of
        self._ask_own = ask_own
        self.is_part = is_part
        """Whether a partition is known as part of a transaction without asking anybody; if not, `verify` says it."""
        self._peers = peers
        self._settings = settings
        self._spawn = spawn
        self._others: CoordinatorQuestions | None = None
        """Questions to other brokers; None as long as there was none."""

    def verify(
        self, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition], support: TransactionSupport
    ) -> asyncio.Future[PartitionCodes]:
        """Whether partitions are part of the producer's transaction, a code for each of them; the future never fails."""
        loop, settings = asyncio.get_running_loop(), self._settings.current
        question: Question
        if support is TransactionSupport.ADD_PARTITION:
            question = AddPartitions(transactional_id, producer, partitions, client_version=BUMPS_EPOCHS)
        else:
            question = VerifyPartitions(transactional_id, producer, partitions)
        retries_end = loop.time() + settings.integer("add.partitions.to.txn.retry.backoff.max.ms") / 1000
        asked = _Asked(question, support, loop.create_future(), retries_end)
        if isinstance(question, VerifyPartitions) and not settings.boolean("transaction.partition.verification.enable"):
            asked.answer.set_result(dict.fromkeys(partitions, 0))
        else:
            self._ask(asked)
        return asked.answer

    def close(self) -> None:
        """The broker stops."""
        if self._others is not None:
            self._others.close()
        self._peers.close()

    def _ask(self, asked: _Asked) -> None:
        if asked.answer.done():
            return  # whoever waited is gone
        question = asked.question
        try:
            node_id = self._coordinator_of(question.transactional_id)
        except KafkaError as error:
            self._answered(asked, dict.fromkeys(question.partitions, error.code))
            return
        if node_id == self._node_id:
            self._ask_own(question, lambda codes: self._answered(asked, codes))
        else:
            self._questions().ask(node_id, question, lambda codes: self._answered(asked, codes))

    def _questions(self) -> "CoordinatorQuestions":
        if self._others is None:
            from millstream.broker.transactions.coordinator_questions import CoordinatorQuestions  # a broker starts sooner without it

            self._others = CoordinatorQuestions(self._peers, self._spawn)
        return self._others

    def _answered(self, asked: _Asked, codes: PartitionCodes) -> None:
        if asked.answer.done():
            return
        is_early = asked.support is TransactionSupport.ADD_PARTITION and ConcurrentTransactions.code in codes.values()
        loop = asyncio.get_running_loop()
        if is_early and loop.time() < asked.retries_end:
            loop.call_later(self._settings.current.integer("add.partitions.to.txn.retry.backoff.ms") / 1000, self._ask, asked)
            return
        asked.answer.set_result({name: _known_code(code, asked.support) for name, code in codes.items()})


def _known_code(code: int, support: TransactionSupport) -> int:
    """The code as clients of the request know it."""
    if code == ProducerFenced.code:
        return InvalidProducerEpoch.code
    if code == TransactionAbortable.code and support is TransactionSupport.DEFAULT_ERROR:
        return InvalidTxnState.code
    return code
