"""WriteTxnMarkers (27): the coordinator of transactions, or an administrator, ends transactions in the partitions that this broker leads.

Versions 1-2. 2: the transaction version, by which the epoch of a marker is judged (KIP-890).

Answered when the markers are committed (acks=all), or after `TIMEOUT_MS`. Kafka wants CLUSTER_ACTION, or ALTER, on the cluster for it: it
is what brokers send each other, and what Java's `Admin.abortTransaction` sends. There are no ACLs here yet, so anybody who reaches the
broker may send it, as anybody may delete topics; a marker with an epoch of former times is refused, whoever sends it.
"""

from typing import TYPE_CHECKING, Final

from millstream.broker.coordinators.reply import CoordinatorReply, refuse_nothing
from millstream.broker.network.api import Fields, Request, api
from millstream.broker.network.outbox import Chunk
from millstream.broker.transactions.marker_writes import MarkerResults, MarkerWrites, ProducerMarkers
from millstream.errors import MalformedFrame
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from millstream.wire.requests.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest

MAX_MARKERS: Final = 5_000
"""Most producers and markers in one request: others wait while it is read. Our coordinators send at most 2 000 markers."""
TIMEOUT_MS: Final = 30_000
"""Kafka's `request.timeout.ms` of a broker."""


class TransactionMarkersFamily:
    """Ends transactions in the partitions of this broker."""

    def __init__(self, writes: MarkerWrites) -> None:
        self._writes = writes

    @api(ApiKey.WRITE_TXN_MARKERS, 1, 2)
    def write_txn_markers(self, request: Request) -> "Sequence[Chunk] | None":
        """Append the markers and say which of them are committed."""
        message: WriteTxnMarkersRequest = request.decode()
        count = sum(len(topic.partition_indexes) for marker in message.markers for topic in marker.topics)
        if len(message.markers) + count > MAX_MARKERS:
            raise MalformedFrame(f"a WriteTxnMarkers request with more than {MAX_MARKERS} producers and markers")
        markers = [_asked_for(marker) for marker in message.markers]
        reply = CoordinatorReply(request, refuse_nothing)
        self._writes.write(markers, timeout_ms=TIMEOUT_MS, done=lambda results: reply.answer(_answer(markers, results)))
        return reply.result()


def _asked_for(marker: "WritableTxnMarker") -> ProducerMarkers:
    return ProducerMarkers(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
        [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes],
    )


def _answer(markers: list[ProducerMarkers], results: MarkerResults) -> Fields:
    """As in Kafka each producer id has one part of the answer, even where the request has several."""
    by_producer: dict[int, dict[str, dict[int, int]]] = {}
    for one, outcomes in zip(markers, results, strict=True):
        topics = by_producer.setdefault(one.producer_id, {})
        for (topic, index), error in outcomes.items():
            topics.setdefault(topic, {})[index] = 0 if error is None else error.code
    return {
        "markers": [
            {"producer_id": producer_id, "topics": [_topic_answer(name, codes) for name, codes in topics.items()]}
            for producer_id, topics in by_producer.items()
        ]
    }


def _topic_answer(name: str, codes: dict[int, int]) -> Fields:
    return {"name": name, "partitions": [{"partition_index": index, "error_code": code} for index, code in codes.items()]}
