"""InitProducerId (22), DescribeProducers (61), ListTransactions (66): idempotent producers, and no transactional ones yet.

InitProducerId 0-5. 2: flexible. 3: a producer may name its old id and epoch, both or neither (KIP-360). A producer without a transactional
id always gets a new id in epoch 0. Transactions do not exist yet: a transactional id is answered with
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, at which every client gives up at once; FindCoordinator has said so before, with a sentence.
DescribeProducers 0. ListTransactions 0-2. 1: filter by duration. 2: filter by a pattern of ids (KIP-1152).
"""

from typing import TYPE_CHECKING

from millstream.broker.failures import as_kafka_error, error_fields
from millstream.broker.network.api import Fields, Later, Request, api
from millstream.cluster.replicas import Replicas
from millstream.cluster.topic_access import Operation
from millstream.errors import InvalidRegularExpression, InvalidRequest, TransactionalIdAuthorizationFailed
from millstream.groups.consumer.topic_patterns import TopicPattern
from millstream.transactions.producer_ids import ProducerIds
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.describe_producers import DescribeProducersRequest
    from millstream.wire.requests.init_producer_id import InitProducerIdRequest
    from millstream.wire.requests.list_transactions import ListTransactionsRequest

NONE = -1
TRANSACTION_STATES = frozenset(
    {"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}
)


class ProducersFamily:
    """Hands out producer ids and lists the producers that a partition knows."""

    def __init__(self, replicas: Replicas, producer_ids: ProducerIds) -> None:
        self._replicas = replicas
        self._producer_ids = producer_ids

    @api(ApiKey.INIT_PRODUCER_ID, 0, 5)
    def init_producer_id(self, request: Request) -> Fields | Later:
        """A new producer id."""
        message: InitProducerIdRequest = request.decode()
        has_old_id = message.producer_id != NONE
        has_old_epoch = message.producer_epoch != NONE
        if has_old_id is not has_old_epoch or message.transactional_id == "":
            return _no_producer(InvalidRequest.code)
        if message.transactional_id is not None:
            return _no_producer(TransactionalIdAuthorizationFailed.code)
        return self._new_producer()

    async def _new_producer(self) -> Fields:
        try:
            return {"error_code": 0, "producer_id": await self._producer_ids.take(), "producer_epoch": 0}
        except Exception as error:
            return _no_producer(as_kafka_error(error).code)

    @api(ApiKey.DESCRIBE_PRODUCERS, 0, 0)
    def describe_producers(self, request: Request) -> Fields:
        """The producers whose sequences a partition remembers."""
        message: DescribeProducersRequest = request.decode()
        topics = []
        for topic in message.topics:
            partitions = [{"partition_index": index, **self._describe(request, topic.name, index)} for index in topic.partition_indexes]
            topics.append({"name": topic.name, "partitions": partitions})
        return {"topics": topics}

    @api(ApiKey.LIST_TRANSACTIONS, 0, 2)
    def list_transactions(self, request: Request) -> Fields:
        """The transactions that match a filter: none."""
        message: ListTransactionsRequest = request.decode()
        unknown = [state for state in dict.fromkeys(message.state_filters) if state not in TRANSACTION_STATES]
        try:
            TopicPattern(message.transactional_id_pattern or "")
        except InvalidRegularExpression as error:
            return {"error_code": error.code, "unknown_state_filters": [], "transaction_states": []}
        return {"error_code": 0, "unknown_state_filters": unknown, "transaction_states": []}

    def _describe(self, request: Request, topic: str, index: int) -> dict[str, object]:
        try:
            partition = self._replicas.partition_for(request.session, Operation.READ, topic, index)
            partition.as_leader()
            producers = [
                {
                    "producer_id": producer.producer_id,
                    "producer_epoch": producer.epoch,
                    "last_sequence": producer.last_sequence,
                    "last_timestamp": producer.last_timestamp,
                    "coordinator_epoch": -1,
                    "current_txn_start_offset": -1,
                }
                for producer in partition.log.producers
            ]
        except Exception as error:
            return {**error_fields(as_kafka_error(error)), "active_producers": []}
        return {**error_fields(None), "active_producers": producers}


def _no_producer(error_code: int) -> Fields:
    return {"error_code": error_code, "producer_id": NONE, "producer_epoch": NONE}
