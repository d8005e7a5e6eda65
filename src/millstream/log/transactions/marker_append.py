"""Writing the marker that ends a transaction in one partition. Acts on a log from outside; only a leader does it.

Followers, recovery and replay learn from the batch what it means (`ProducerState.learn`).
"""

from millstream.log.log import Log
from millstream.log.transactions.marker import Marker, encode_marker
from millstream.wire.records import ProducerStamp


def append_marker(log: Log, marker: Marker, producer: ProducerStamp, *, transaction_version: int, leader_epoch: int, now_ms: int) -> int:
    """Write the marker; its offset. InvalidProducerEpoch or TransactionCoordinatorFenced if a later epoch was here.

    A marker for a producer without a transaction is written as well, as in Kafka: it may be the one that fences the producer.
    """
    log.check_usable()
    log.producers.check_marker(
        producer.producer_id,
        producer.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=transaction_version,
    )
    batch = encode_marker(marker, producer, timestamp=now_ms)
    return log.append_as_leader(batch, leader_epoch=leader_epoch, now_ms=now_ms, is_own=True).base_offset
