"""DescribeProducers (61), version 0: the producers that a partition knows."""

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from millstream.broker.failures import as_kafka_error, error_fields
from millstream.broker.network.api import Fields, Request, api
from millstream.broker.network.outbox import Chunk
from millstream.broker.storage.loop_turns import TaskTurns, in_turns
from millstream.cluster.replicas import Replicas
from millstream.cluster.topic_access import Operation
from millstream.log.producer_state import ProducerEntry
from millstream.wire.api import ApiKey
from millstream.wire.last_array import framed_with_elements, with_elements
from millstream.wire.message_writer import message_writer
from millstream.wire.schema import schema_at

if TYPE_CHECKING:
    from millstream.wire.requests.describe_producers import DescribeProducersRequest


class ProducersFamily:
    """Lists the producers that a partition knows."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    @api(ApiKey.DESCRIBE_PRODUCERS, 0, 0)
    def describe_producers(self, request: Request) -> Coroutine[Any, Any, Sequence[Chunk]]:
        """The producers whose sequences a partition remembers."""
        return self._describe_all(request, request.decode())

    async def _describe_all(self, request: Request, message: "DescribeProducersRequest") -> Sequence[Chunk]:
        """In turns: thousands of partitions may remember thousands of producers each."""
        from millstream.wire.responses.describe_producers import TOPIC_RESPONSE  # a broker starts sooner without it

        encode = message_writer(schema_at(TOPIC_RESPONSE, 0, is_flexible=True))
        turns = TaskTurns()
        topics = []
        for topic in message.topics:
            partitions = [await self._describe(request, topic.name, index, turns) for index in topic.partition_indexes]
            topics.append(with_elements(encode({"name": topic.name, "partitions": []}), partitions))
        return [framed_with_elements(request.encode({"topics": []}), topics)]

    async def _describe(self, request: Request, topic: str, index: int, turns: TaskTurns) -> bytes:
        from millstream.wire.responses.describe_producers import PARTITION_RESPONSE, PRODUCER_STATE

        error, known = None, []
        await turns.share()
        try:
            partition = self._replicas.partition_for(request.session, Operation.READ, topic, index)
            partition.as_leader()
            known = list(partition.log.producers)
        except Exception as failure:
            error = as_kafka_error(failure)
        encode = message_writer(schema_at(PRODUCER_STATE, 0, is_flexible=True))
        producers: list[bytes] = []
        async for some in in_turns(known, turns):
            producers += [encode(_shown(producer)) for producer in some]
        encode = message_writer(schema_at(PARTITION_RESPONSE, 0, is_flexible=True))
        return with_elements(encode({"partition_index": index, **error_fields(error), "active_producers": []}), producers)


def _shown(producer: ProducerEntry) -> Fields:
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp,
        "coordinator_epoch": producer.coordinator_epoch,
        "current_txn_start_offset": producer.transaction_first_offset,
    }
