"""InitProducerId (22), AddPartitionsToTxn (24), AddOffsetsToTxn (25), EndTxn (26): producers and their transactions.

InitProducerId 0-5. 2: flexible. 3: a producer may name its old id and epoch, both or neither (KIP-360). 4: PRODUCER_FENCED. 5: the client
knows TRANSACTION_ABORTABLE (KIP-890). A producer without a transactional id always gets a new id in epoch 0.
AddPartitionsToTxn 0-5. 2: PRODUCER_FENCED. 3: flexible. 4: from brokers, several transactions at once, and only to ask (KIP-890). 5: as 4.
AddOffsetsToTxn 0-4. 2: PRODUCER_FENCED. 3: flexible. 4: TRANSACTION_ABORTABLE. EndTxn 0-5. 2: PRODUCER_FENCED. 3: flexible. 4:
TRANSACTION_ABORTABLE. 5: each end of a transaction brings the next epoch, which is in the answer (KIP-890).

What an answer says is decided by the machine in `millstream.transactions`; here requests become commands. Before the versions that know it,
PRODUCER_FENCED is INVALID_PRODUCER_EPOCH. What cannot be written in a transaction is refused here, and then nothing of the request is
done: partitions that do not exist, mirrors, and the broker's own topics, which clients do not name (offsets have a request of their own).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from millstream.broker.coordinators.group_coordinator import GroupCoordinator
from millstream.broker.coordinators.reply import CoordinatorReply, GatheredReply, ReplyPart, refuse_nothing
from millstream.broker.coordinators.transaction_coordinator import PartitionErrors, TransactionCoordinator
from millstream.broker.failures import as_kafka_error
from millstream.broker.network.api import Fields, Later, Request, api
from millstream.broker.network.outbox import Chunk
from millstream.cluster.topic_access import Operation, check_mirrored
from millstream.coordination.cluster_view import ClusterView
from millstream.coordination.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC
from millstream.errors import InvalidProducerEpoch, InvalidRequest, KafkaError, MalformedFrame, UnknownTopicOrPartition
from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import OperationNotAttempted, ProducerFenced, TopicAuthorizationFailed
from millstream.transactions.commands import AddPartitions, EndTransaction, InitProducerId, VerifyPartitions
from millstream.transactions.producer_ids import ProducerIds
from millstream.transactions.transaction import BUMPS_EPOCHS, NO_EPOCH, NO_PRODUCER, Producer
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.add_offsets_to_txn import AddOffsetsToTxnRequest
    from millstream.wire.requests.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTransaction,
    )
    from millstream.wire.requests.end_txn import EndTxnRequest
    from millstream.wire.requests.init_producer_id import InitProducerIdRequest

MAX_PARTITIONS: Final = 10_000
"""Most partitions in one request: others wait while they are looked up. Clients name those that they are about to write to."""
MAX_TRANSACTIONS: Final = 1_000
"""Most transactions in one request, for the same reason. Our brokers ask about at most 500."""
_FIRST_INIT_WITH_FENCED = 4
_FIRST_WITH_FENCED = 2
_FIRST_FROM_BROKERS = 4
_FIRST_END_WITH_EPOCHS = 5


class TransactionsFamily:
    """Producers begin, write in transactions, and end them."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        groups: GroupCoordinator,
        producer_ids: ProducerIds,
        *,
        view: Callable[[], ClusterView],
    ) -> None:
        self._transactions = transactions
        self._groups = groups
        self._producer_ids = producer_ids
        self._view = view

    @api(ApiKey.INIT_PRODUCER_ID, 0, 5)
    def init_producer_id(self, request: Request) -> Fields | Sequence[Chunk] | Later | None:
        """A producer id and an epoch."""
        message: InitProducerIdRequest = request.decode()
        old = Producer(message.producer_id, message.producer_epoch)
        if (old.producer_id == NO_PRODUCER) is not (old.epoch == NO_EPOCH) or message.transactional_id == "":
            return _no_producer(InvalidRequest.code)
        if message.transactional_id is None:
            return self._new_producer()
        expected = None if old.producer_id == NO_PRODUCER else old
        command = InitProducerId(message.transactional_id, message.transaction_timeout_ms, expected)
        shape = _as_it_is if request.api_version >= _FIRST_INIT_WITH_FENCED else _fenced_by_epoch
        return self._transactions.submit(command, request, refuse=_refuse_producer, shape=shape)

    async def _new_producer(self) -> Fields:
        try:
            return {"error_code": 0, "producer_id": await self._producer_ids.take(), "producer_epoch": 0}
        except Exception as error:
            return _no_producer(as_kafka_error(error).code)

    @api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5)
    def add_partitions_to_txn(self, request: Request) -> Sequence[Chunk] | None:
        """Partitions that a producer is about to write to; other brokers also ask whether they are part of the transaction."""
        message: AddPartitionsToTxnRequest = request.decode()
        topics = (message.v3_and_below_topics, *(one.topics for one in message.transactions))
        if sum(len(topic.partitions) for some in topics for topic in some) > MAX_PARTITIONS:
            raise MalformedFrame(f"an AddPartitionsToTxn request with more than {MAX_PARTITIONS} partitions")
        if len(message.transactions) > MAX_TRANSACTIONS:
            raise MalformedFrame(f"an AddPartitionsToTxn request with more than {MAX_TRANSACTIONS} transactions")
        reply = CoordinatorReply(request, refuse_nothing)
        if request.api_version >= _FIRST_FROM_BROKERS:
            self._add_for_brokers(message.transactions, reply)
        else:
            self._add_for_client(message, reply, is_fenced_known=request.api_version >= _FIRST_WITH_FENCED)
        return reply.result()

    def _add_for_client(self, message: "AddPartitionsToTxnRequest", reply: CoordinatorReply, *, is_fenced_known: bool) -> None:
        asked = _partitions(message.v3_and_below_topics)

        def done(errors: PartitionErrors) -> None:
            if not is_fenced_known:
                errors = {one: InvalidProducerEpoch.code if code == ProducerFenced.code else code for one, code in errors.items()}
            reply.answer({"results_by_topic_v3_and_below": _results(asked, errors)})

        refused = self._refused(asked, is_client=True)
        if refused:
            done(refused)
            return
        producer = Producer(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
        self._transactions.add_partitions(AddPartitions(message.v3_and_below_transactional_id, producer, frozenset(asked)), done)

    def _add_for_brokers(self, transactions: "Sequence[AddPartitionsToTxnTransaction]", reply: CoordinatorReply) -> None:
        gathered = GatheredReply(reply, len(transactions), lambda results: {"error_code": 0, "results_by_transaction": results})
        for number, one in enumerate(transactions):
            self._add_for_broker(one, gathered.part(number, refuse_nothing))

    def _add_for_broker(self, asked: "AddPartitionsToTxnTransaction", part: ReplyPart) -> None:
        transactional_id, producer, partitions = (
            asked.transactional_id,
            Producer(asked.producer_id, asked.producer_epoch),
            _partitions(asked.topics),
        )

        def done(errors: PartitionErrors) -> None:
            part.answer({"transactional_id": transactional_id, "topic_results": _results(partitions, errors)})

        refused = self._refused(partitions, is_client=False)
        if refused:
            done(refused)
        elif asked.verify_only:
            self._transactions.add_partitions(VerifyPartitions(transactional_id, producer, frozenset(partitions)), done)
        else:
            command = AddPartitions(transactional_id, producer, frozenset(partitions), client_version=BUMPS_EPOCHS)
            self._transactions.add_partitions(command, done)

    def _refused(self, partitions: Iterable[TopicPartition], *, is_client: bool) -> PartitionErrors:
        """Codes of all partitions, if some of them cannot be part of a transaction; nothing otherwise."""
        view = self._view()
        errors = {}
        for one in partitions:
            try:
                _check_partition(one, view, is_client=is_client)
            except KafkaError as error:
                errors[one] = error.code
        return {one: errors.get(one, OperationNotAttempted.code) for one in partitions} if errors else {}

    @api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4)
    def add_offsets_to_txn(self, request: Request) -> Sequence[Chunk] | Later | None:
        """A producer is about to commit offsets of a group in its transaction."""
        message: AddOffsetsToTxnRequest = request.decode()
        partition = TopicPartition(OFFSETS_TOPIC, self._groups.partition_of(message.group_id))
        producer = Producer(message.producer_id, message.producer_epoch)
        command = AddPartitions(message.transactional_id, producer, frozenset((partition,)))
        return self._transactions.submit(command, request, refuse=_refuse, shape=_fences(request))

    @api(ApiKey.END_TXN, 0, 5)
    def end_txn(self, request: Request) -> Sequence[Chunk] | Later | None:
        """Commit or abort."""
        message: EndTxnRequest = request.decode()
        producer = Producer(message.producer_id, message.producer_epoch)
        client_version = BUMPS_EPOCHS if request.api_version >= _FIRST_END_WITH_EPOCHS else 0
        command = EndTransaction(message.transactional_id, producer, is_commit=message.committed, client_version=client_version)
        return self._transactions.submit(command, request, refuse=_refuse_producer, shape=_fences(request))


def _check_partition(partition: TopicPartition, view: ClusterView, *, is_client: bool) -> None:
    topic = view.topics.get(partition.topic)
    if is_client and partition.topic in INTERNAL_TOPICS:
        raise TopicAuthorizationFailed(f"{partition.topic} is written by the broker alone")
    if topic is None or not 0 <= partition.partition < len(topic.partitions):
        raise UnknownTopicOrPartition(f"there is no partition {partition}")
    check_mirrored(Operation.WRITE, topic.name, topic.configs.get("mirror.source", ""))


def _partitions(topics: "Iterable[AddPartitionsToTxnTopic]") -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _results(partitions: Iterable[TopicPartition], errors: PartitionErrors) -> list[Fields]:
    by_topic: dict[str, dict[int, int]] = {}
    for one in partitions:
        by_topic.setdefault(one.topic, {})[one.partition] = errors[one]
    return [
        {
            "name": topic,
            "results_by_partition": [{"partition_index": index, "partition_error_code": code} for index, code in codes.items()],
        }
        for topic, codes in by_topic.items()
    ]


def _fences(request: Request) -> Callable[[Fields], Fields]:
    return _as_it_is if request.api_version >= _FIRST_WITH_FENCED else _fenced_by_epoch


def _as_it_is(fields: Fields) -> Fields:
    return fields


def _fenced_by_epoch(fields: Fields) -> Fields:
    """For clients that do not know PRODUCER_FENCED."""
    return {**fields, "error_code": InvalidProducerEpoch.code} if fields["error_code"] == ProducerFenced.code else fields


def _refuse(error: KafkaError) -> Fields:
    return {"error_code": error.code}


def _refuse_producer(error: KafkaError) -> Fields:
    return _no_producer(error.code)


def _no_producer(error_code: int) -> Fields:
    return {"error_code": error_code, "producer_id": NO_PRODUCER, "producer_epoch": NO_EPOCH}
