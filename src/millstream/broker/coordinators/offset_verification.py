"""Asks the coordinator of a transaction before offsets of a group are committed in it: as Produce does for the first batch of one.

The partition is one of `__consumer_offsets`. What the leader remembers of the question (`cluster.verifications`) sees to it that no offsets
become pending after the marker that ended their transaction.
"""

from asyncio import Future
from collections.abc import Callable

from millstream.broker.coordinators.offset_transactions import Transaction
from millstream.broker.transactions.verification import NETWORK_EXCEPTION, PartitionCodes, TransactionSupport, TransactionVerification
from millstream.client.errors import kafka_error
from millstream.cluster.partition import Partition
from millstream.errors import CoordinatorLoadInProgress, KafkaError
from millstream.topic_partition import TopicPartition
from millstream.transactions.transaction import Producer
from millstream.wire.records import ProducerStamp

Done = Callable[[KafkaError | None], None]


class OffsetVerification:
    """Whether a partition of `__consumer_offsets` is part of a transaction."""

    def __init__(self, verification: TransactionVerification) -> None:
        self._verification = verification

    def verify(self, partition: Partition, transaction: Transaction, *, version: int, done: Done) -> None:
        """Call `done`, possibly at once, with None if the partition is in the open transaction, and with what is wrong otherwise."""
        transactional_id, producer_id, epoch = transaction
        try:
            leader = partition.as_leader()
        except KafkaError as error:
            done(error)
            return
        if leader.has_open_transaction(producer_id, epoch):
            done(None)
            return
        support = TransactionSupport.of_offset_commit(version)
        stamp = ProducerStamp(producer_id, epoch)
        question = leader.begin_verification(stamp, bumps_epochs=support.bumps_epochs)
        name = TopicPartition(partition.topic, partition.index)

        def answered(codes: "Future[PartitionCodes]") -> None:
            if codes.cancelled():
                return  # the broker stops
            code = codes.result()[name]
            try:
                if code:
                    raise _refusal(code)
                partition.as_leader().check_verified(question, stamp)
            except KafkaError as error:
                done(error)
            else:
                done(None)

        self._verification.verify(transactional_id, Producer(producer_id, epoch), frozenset((name,)), support).add_done_callback(answered)


def _refusal(code: int) -> KafkaError:
    if code == NETWORK_EXCEPTION:
        # As in Kafka: older clients try again at that, and look for no other coordinator.
        return CoordinatorLoadInProgress("the coordinator of the transaction could not be asked; try again")
    return kafka_error(code, "the coordinator of the transaction refused the group's partition")
