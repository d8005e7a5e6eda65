"""InitProducerId (22), DescribeProducers (61): idempotent producers.

InitProducerId 0-5. 2: flexible. 3: a producer may name its old id (KIP-360). A producer without a transactional id always gets a new id in
epoch 0. Transactions do not exist yet: a transactional id is answered with UNSUPPORTED_VERSION, which clients report and do not retry.
DescribeProducers 0.
"""

from typing import Any

from penstock.broker.api import Fields, Request, api
from penstock.broker.failures import as_kafka_error, error_fields
from penstock.cluster.replicas import Replicas
from penstock.errors import InvalidRequest, UnsupportedVersion
from penstock.transactions.producer_ids import ProducerIds
from penstock.wire.api import ApiKey


class ProducersFamily:
    """Hands out producer ids and tells which producers a partition knows."""

    def __init__(self, replicas: Replicas, producer_ids: ProducerIds) -> None:
        self._replicas = replicas
        self._producer_ids = producer_ids

    @api(ApiKey.INIT_PRODUCER_ID, 0, 5)
    def init_producer_id(self, request: Request) -> Any:
        """A new producer id."""
        transactional_id = request.decode().transactional_id
        if transactional_id is not None:
            error = InvalidRequest if transactional_id == "" else UnsupportedVersion
            return {"error_code": error.code, "producer_id": -1, "producer_epoch": -1}
        return self._new_producer()

    async def _new_producer(self) -> Fields:
        try:
            return {"error_code": 0, "producer_id": await self._producer_ids.take(), "producer_epoch": 0}
        except Exception as error:
            return {"error_code": as_kafka_error(error).code, "producer_id": -1, "producer_epoch": -1}

    @api(ApiKey.DESCRIBE_PRODUCERS, 0, 0)
    def describe_producers(self, request: Request) -> Fields:
        """The producers whose sequences a partition remembers."""
        topics = []
        for topic in request.decode().topics:
            partitions = [{"partition_index": index, **self._describe(topic.name, index)} for index in topic.partition_indexes]
            topics.append({"name": topic.name, "partitions": partitions})
        return {"topics": topics}

    def _describe(self, topic: str, index: int) -> dict[str, object]:
        try:
            partition = self._replicas.partition(topic, index)
            partition.check_leader()
            producers = [
                {
                    "producer_id": producer.producer_id,
                    "producer_epoch": producer.epoch,
                    "last_sequence": producer.last_sequence,
                    "last_timestamp": producer.last_timestamp,
                    "coordinator_epoch": -1,
                    "current_txn_start_offset": -1,
                }
                for producer in partition.log.active_producers
            ]
        except Exception as error:
            return {**error_fields(as_kafka_error(error)), "active_producers": []}
        return {**error_fields(None), "active_producers": producers}
