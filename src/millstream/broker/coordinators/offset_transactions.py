"""Transactions at the group coordinator: how offsets get into them, and how they end here.

Before an offset is written in a transaction the coordinator of the transaction is asked whether that is open and has this partition of
`__consumer_offsets` in it (KIP-890): what is written into none would stay pending for ever. Once something of the transaction is in
the partition it need not be asked again. The end comes as a marker (`broker.transactions.marker_writes`), of which the group's machine
learns when it is appended; a partition whose machine is not loaded takes none, because it would be missed.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from millstream.broker.coordinators.context import Answerable, as_coordinator_error
from millstream.broker.coordinators.group_coordinator import GroupCoordinator
from millstream.broker.transactions.marker_writes import ProducerMarkers
from millstream.cluster.partition import Partition
from millstream.coordinator_shard import Outcome
from millstream.errors import (
    KafkaError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
    StorageError,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from millstream.groups.commands import CommitPendingOffsets
from millstream.groups.shard import GroupCoordinatorShard
from millstream.wire.records import ProducerStamp


class Transaction(NamedTuple):
    """The transaction that a client says it commits offsets in."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Verification(Protocol):
    """Asks the coordinators of transactions."""

    def verify(self, partition: Partition, transaction: Transaction, *, version: int, done: Callable[[KafkaError | None], None]) -> None:
        """Call `done`, possibly at once, with None if the partition is in the open transaction, and with what is wrong otherwise."""


class OffsetTransactions:
    """Commits offsets in transactions, and ends those."""

    def __init__(self, groups: GroupCoordinator, verification: Verification) -> None:
        self._groups = groups
        self._verification = verification

    def commit(self, command: CommitPendingOffsets, transaction: Transaction, reply: Answerable, *, version: int) -> None:
        """Let the group decide about a commit, if the transaction is open."""
        runtime = self._groups.runtime

        def decide(shard: GroupCoordinatorShard, now_ms: int) -> Outcome:
            try:
                return shard.commit_pending(command, reply, now_ms=now_ms)
            except Exception:
                # There may be no router above that catches it: the client would wait for ever.
                reply.fail(UnknownServerError("the coordinator failed"))
                raise

        def verified(error: KafkaError | None) -> None:
            if error is not None:
                reply.fail(_as_commit_error(error))
                return
            producer = ProducerStamp(transaction.producer_id, transaction.producer_epoch)
            runtime.write(command.group_id, decide, reply, transaction=producer)

        try:
            context = runtime.context(command.group_id)
            context.check_active()
        except KafkaError as error:
            reply.fail(error)
            return
        self._verification.verify(context.partition, transaction, version=version, done=verified)

    def prepare(self, partition: Partition) -> None:
        """Write what was decided and is not written yet. Raises (a coordinator's error) if a marker must not be appended now."""
        context = self._groups.runtime.context_of(partition)
        context.write_batch()
        context.check_active()

    def marker_appended(self, partition: Partition, markers: ProducerMarkers, *, next_offset: int) -> None:
        """The offsets that the producer has pending count, or are forgotten; `next_offset` is the one behind the marker."""
        context = self._groups.runtime.context_of(partition)
        context.marker_appended(markers.producer_id, is_commit=markers.is_commit, next_offset=next_offset)


def _as_commit_error(error: KafkaError) -> KafkaError:
    """What a producer is answered when its transaction cannot be verified (Kafka translates the same way)."""
    match error:
        case NotLeaderOrFollower() | StorageError() | UnknownTopicOrPartition() | NotEnoughReplicas() | RequestTimedOut():
            return as_coordinator_error(error)
        case _:
            return error
