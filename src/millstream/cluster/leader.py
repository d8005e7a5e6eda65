"""The role of the leader of a partition: it appends what producers send, serves readers, and knows how far its followers have come.

It belongs to one leader epoch; another one begins with a new object. What it knows of its followers is a `ReplicaSet`; with one replica
that is the same set without followers, and the high watermark follows the log at once. The high watermark is computed anew with each
append, fetch of a follower, change of the in-sync set and flush (`commit`), and never passes what is on disk where a flush is due.

- acks=all: at least `min.insync.replicas` in sync (or all, if there are fewer, as in Kafka), and the high watermark is waited for;
- acks=1 and 0: the lease must be held, because nothing else says that no other leader was chosen meanwhile; with one replica none can be;
- what readers are shown is said by `readable_replica`; the last stable offset moves only with the high watermark: what ends a transaction
  counts when it is replicated.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from millstream.buffer import Buffer
from millstream.cluster.readable_replica import ReadableReplica
from millstream.cluster.replica_set import Position, ReplicaSet
from millstream.cluster.watermark import Watermark
from millstream.coordination.partition_state import PartitionState
from millstream.errors import (
    CoordinatorLoadInProgress,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PolicyViolation,
    StorageError,
)
from millstream.log.log import AppendResult
from millstream.log.producer_state import BUMPS_EPOCHS, TransactionalWrites
from millstream.log.records.record_check import CheckedBatch, RecordCheck
from millstream.wire.batch import read_header

if TYPE_CHECKING:
    from millstream.cluster.partition import Partition
    from millstream.cluster.verifications import Verification, Verifications
    from millstream.log.transactions.marker import Marker
    from millstream.wire.records import ProducerStamp

ACKS_ALL: Final = -1


class Leader(ReadableReplica):
    """This broker leads a partition in one epoch."""

    __slots__ = ("_first_bytes", "_known_end", "_verifications", "leader_epoch", "low_watermark", "replica_set")

    def __init__(self, partition: "Partition", state: PartitionState) -> None:
        """Begin to lead; the log says StorageError if it cannot be used. `commit` has to follow."""
        log, broker = partition.log, partition.broker
        log.assign_leader_epoch(state.leader_epoch)
        super().__init__(partition, log)
        self.leader_epoch = state.leader_epoch
        self._first_bytes = log.bytes_written
        self._known_end = log.log_end_offset
        """The log end that followers were last called for."""
        self.replica_set = ReplicaSet(
            broker.node_id,
            state,
            high_watermark=partition.high_watermark.value,
            epoch_start_offset=log.log_end_offset,
            lag_ms=broker.lag_ms(),
            now_ms=broker.clock.monotonic_ms(),
        )
        self._verifications: Verifications | None = None
        """What coordinators are asked about transactions, before they begin here; None as long as there was none."""
        self.low_watermark = Watermark(self._low_watermark())
        """Where the log begins on all replicas that are there, for those who want records to be gone everywhere."""

    def __repr__(self) -> str:
        return f"Leader({self._partition.topic}-{self._partition.index}, epoch {self.leader_epoch})"

    @property
    def messages_in(self) -> int:
        """How many records were appended in this epoch, as Kafka counts them: offsets."""
        return max(self.log.log_end_offset - self.replica_set.epoch_start_offset, 0)

    @property
    def bytes_in(self) -> int:
        """How many bytes were appended in this epoch."""
        return self.log.bytes_written - self._first_bytes

    # --- producers

    def begin_record_check(self, batch: Buffer, *, acks: int, now_ms: int) -> RecordCheck | None:
        """Begin to look into a batch that is to be appended; None if it need not be looked into."""
        self._check_can_append(acks)
        return self.log.begin_record_check(batch, now_ms=now_ms)

    def append(
        self,
        batch: Buffer,
        *,
        acks: int,
        now_ms: int,
        is_own: bool = False,
        checked: CheckedBatch | None = None,
        transactional: TransactionalWrites = TransactionalWrites.REFUSED,
    ) -> AppendResult:
        """Append one batch, stamped with offset and epoch. `is_own`: the broker itself made it."""
        self._check_can_append(acks)
        try:
            result = self.log.append_as_leader(
                batch, leader_epoch=self.leader_epoch, now_ms=now_ms, is_own=is_own, checked=checked, transactional=transactional
            )
        except StorageError:
            self._cannot_write()
            raise
        self._appended()
        return result

    def append_run(
        self, batches: Sequence[Buffer], *, acks: int, now_ms: int, transactional: TransactionalWrites = TransactionalWrites.REFUSED
    ) -> Sequence[AppendResult | Exception]:
        """Append several batches, each as `append` would; per batch its place, or what is wrong with it."""
        self._check_can_append(acks)
        results = self.log.append_run_as_leader(batches, leader_epoch=self.leader_epoch, now_ms=now_ms, transactional=transactional)
        if results and type(results[-1]) is not AppendResult and isinstance(results[-1], StorageError):
            self._cannot_write()
        self._appended()
        return results

    def append_mirrored(self, batches: Buffer, *, source: str, expected_end: int, now_ms: int, is_last: bool = False) -> int:
        """Append what a mirror copied from `source`, offsets kept, if the log ends where the mirror believes; the highest producer id.

        `is_last`: the mirroring ends, and open transactions are aborted; CoordinatorLoadInProgress if there are more than fit into a turn.
        """
        from millstream.log import mirroring  # most brokers are no targets

        log = self.log
        if log.config.mirror_source != source:
            raise PolicyViolation(f"{log.topic_partition} is no mirror of {source!r}: its mirror.source is {log.config.mirror_source!r}")
        if log.log_end_offset != expected_end:
            raise OffsetOutOfRange(f"{log.topic_partition} ends at {log.log_end_offset}, the mirror expected {expected_end}")
        self.check_enough_in_sync()
        is_ended = True
        try:
            headers = mirroring.append_mirrored(log, batches, leader_epoch=self.leader_epoch, now_ms=now_ms)
            highest = mirroring.highest_producer_id(log) if is_last else max((header.producer_id for header in headers), default=-1)
            if is_last:
                is_ended = mirroring.end_mirroring(log, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except StorageError:
            self._cannot_write()
            raise
        self._appended()
        self._partition.forget_replicated_transactions()
        if not is_ended:
            raise CoordinatorLoadInProgress(f"{log.topic_partition} has more open transactions to abort: ask again")
        return highest

    def append_marker(self, marker: "Marker", producer: "ProducerStamp", *, transaction_version: int, now_ms: int) -> int:
        """End the transaction of a producer here, as its coordinator decided; the offset of the marker.

        It counts when the high watermark has passed it. InvalidProducerEpoch or TransactionCoordinatorFenced if it comes too late.
        """
        from millstream.log.transactions.marker_append import append_marker  # a broker starts sooner without it

        self.check_enough_in_sync()
        try:
            offset = append_marker(
                self.log, marker, producer, transaction_version=transaction_version, leader_epoch=self.leader_epoch, now_ms=now_ms
            )
        except StorageError:
            self._cannot_write()
            raise
        if self._verifications is not None:
            self._verifications.ended(*producer[:2], bumps_epochs=transaction_version >= BUMPS_EPOCHS)
        self._appended()
        self._partition.forget_replicated_transactions()
        return offset

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer, in this epoch, has written to the partition in a transaction that is not ended here."""
        entry = self.log.producers.get(producer_id)
        return entry is not None and entry.transaction_first_offset >= 0 and entry.epoch == epoch

    def begin_verification(self, producer: "ProducerStamp", *, bumps_epochs: bool) -> "Verification":
        """The coordinator is about to be asked whether the producer may begin a transaction here, with a batch of this sequence."""
        if self._verifications is None:
            from millstream.cluster.verifications import Verifications  # most partitions have no transactions

            self._verifications = Verifications()
        return self._verifications.begin(producer, self.log.producers.get(producer.producer_id), bumps_epochs=bumps_epochs)

    def check_verified(self, verification: "Verification", producer: "ProducerStamp") -> None:
        """Raise if what the coordinator said is no reason to append the batch: NotLeaderOrFollower if another leader was asked for it."""
        if self.has_open_transaction(producer.producer_id, producer.producer_epoch):
            return
        if verification.asked_by is not self._verifications:
            raise NotLeaderOrFollower(f"the leader of {self.log.topic_partition} changed while a transaction was verified; send it again")
        self._verifications.check(verification, producer, self.log.producers.get(producer.producer_id))

    def append_verified(
        self,
        batch: Buffer,
        producer: "ProducerStamp",
        verification: "Verification",
        *,
        acks: int,
        now_ms: int,
        checked: CheckedBatch | None = None,
    ) -> AppendResult:
        """Append a transactional batch of the producer that the coordinator has confirmed, or that was written before."""
        if self.log.producers.written_as(read_header(batch)) is None:
            self.check_verified(verification, producer)
        result = self.append(batch, acks=acks, now_ms=now_ms, checked=checked, transactional=TransactionalWrites.VERIFIED)
        if self._verifications is not None and not result.is_duplicate:
            self._verifications.begun(producer.producer_id)
        return result

    def commits_at_once(self, count: int) -> bool:
        """Whether so many more records would be committed as soon as they are appended: no other replica, no flush to wait for."""
        log = self.log
        return not self.replica_set.has_followers and log.log_end_offset + count - log.durable_end < log.config.flush_messages

    def watermark_for(self, acks: int) -> Watermark | None:
        """What an answer to a produce with these acks has to wait for; None when it need not wait."""
        if acks == ACKS_ALL:
            return self._partition.high_watermark
        return self._partition.durable if acks and self.log.is_flush_required else None

    def check_still_enough(self) -> None:
        """Raise if what was appended with acks=all, and is committed, must not be acknowledged: too few replicas are left in sync."""
        if self._has_too_few_in_sync:
            raise NotEnoughReplicasAfterAppend(f"the batch was appended, and then {self._too_few_in_sync()}")

    def _check_can_append(self, acks: int) -> None:
        if acks == ACKS_ALL:
            self.check_enough_in_sync()
        else:
            self.check_lease()

    def check_enough_in_sync(self) -> None:
        """Raise if nothing can be appended with acks=all: too few replicas are in sync."""
        if self._has_too_few_in_sync:
            raise NotEnoughReplicas(self._too_few_in_sync())

    def check_lease(self) -> None:
        """Raise if another broker may have been made the leader by now; with one replica none can be."""
        if self.replica_set.has_followers and not self._partition.broker.has_lease():
            partition = self._partition
            raise NotLeaderOrFollower(
                f"broker {partition.broker.node_id} has not heard from ZooKeeper for most of a session: "
                f"another one may lead {partition.topic}-{partition.index} by now"
            )

    @property
    def _has_too_few_in_sync(self) -> bool:
        state = self.replica_set.state
        count = len(state.in_sync_replicas)
        return count < self.log.config.min_insync_replicas and count < len(state.replicas)

    def _too_few_in_sync(self) -> str:
        partition, in_sync = self._partition, self.replica_set.state.in_sync_replicas
        wanted = self.log.config.min_insync_replicas
        return f"{partition.topic}-{partition.index} has {len(in_sync)} in-sync replica(s), min.insync.replicas asks for {wanted}"

    def _cannot_write(self) -> None:
        """The disk works, and the log cannot be written to: another replica should lead. A disk that failed is seen to by itself."""
        if self.log.directory.offline is None:
            self._partition.broker.cannot_write(self._partition)

    def _appended(self) -> None:
        log = self.log
        end = log.log_end_offset
        if self.replica_set.has_followers:
            self._call_followers(end)
        if log.is_flush_required:
            self._partition.broker.request_flush(self._partition)
            end = log.durable_end
        self._advance(end)

    def _call_followers(self, end: int) -> None:
        former_end, self._known_end = self._known_end, end
        if end > former_end:
            self.replica_set.grew_from(former_end)
            self._partition.watchers.appended()

    def commit(self) -> None:
        """Let the high watermark follow what the replicas have."""
        log = self.log
        self._advance(log.durable_end if log.is_flush_required else log.log_end_offset)

    def _advance(self, end: int) -> None:
        """The own log counts up to `end`."""
        partition, replica_set = self._partition, self.replica_set
        broker, minimum = partition.broker, self.log.config.min_insync_replicas
        now_ms = broker.clock.monotonic_ms() if replica_set.has_outsiders else 0
        high_watermark = replica_set.advance(end, min_insync_replicas=minimum, now_ms=now_ms, is_able=broker.is_registered)
        if high_watermark > partition.high_watermark.value:
            partition.high_watermark.advance(high_watermark)
            partition.watchers.committed()

    # --- readers

    @property
    def last_stable_offset(self) -> int:
        """Where readers of committed data stop."""
        return self._partition.last_stable_offset

    @property
    def is_committed_so_far(self) -> bool:
        """Whether all that former leaders committed is known to be: not before the high watermark has reached this epoch (KIP-207)."""
        return self._partition.high_watermark.value >= self.replica_set.epoch_start_offset

    def delete_records_before(self, offset: int) -> int:
        """Move the log start to `offset` (-1: the high watermark) and return that: `low_watermark` gets there when all replicas have."""
        partition = self._partition
        target = partition.high_watermark.value if offset == -1 else offset
        if target < 0 or target > partition.high_watermark.value:
            raise OffsetOutOfRange(
                f"cannot delete up to {offset}: {self.log.topic_partition} is committed up to {partition.high_watermark.value}"
            )
        self.log.delete_records_before(target)
        self.low_watermark.advance(self._low_watermark())
        partition.watchers.noted()
        return target

    def _low_watermark(self) -> int:
        return self.replica_set.low_watermark(self.log.log_start_offset, is_counted=self._partition.broker.is_registered)

    # --- followers

    def replica_fetched(
        self, replica_id: int, broker_epoch: int, offset: int, log_start_offset: int, *, position: Position | None = None
    ) -> None:
        """A follower asked for `offset` in this epoch, so it has everything below; raises if it is none, or of a former life."""
        partition, replica_set = self._partition, self.replica_set
        is_counted = replica_set.fetched(
            replica_id,
            offset,
            broker_epoch=broker_epoch,
            log_start_offset=log_start_offset,
            leader_end=self.log.log_end_offset,
            now_ms=partition.broker.clock.monotonic_ms(),
            position=position,
        )
        if not is_counted:
            raise NotLeaderOrFollower(f"a newer life of broker {replica_id} has fetched {self.log.topic_partition} already")
        if partition.high_watermark.value < self.log.log_end_offset:
            self.commit()
        if self.low_watermark.is_awaited:
            self.low_watermark.advance(self._low_watermark())
        if replica_set.may_join(replica_id):
            partition.broker.in_sync_change_wanted(partition)

    def expects_nothing_of(self, replica_id: int) -> bool:
        """Whether a further fetch of a follower that has everything would change nothing: else it is to come with each of its requests.

        What holds the high watermark back, or the deletion of records, may be a follower that is gone by then; and a follower that
        belongs into the in-sync set says so until the controller was asked.
        """
        is_committed = self._partition.high_watermark.value >= self.log.log_end_offset
        return is_committed and not self.low_watermark.is_awaited and not self.replica_set.may_join(replica_id)

    def decided(self, state: PartitionState) -> None:
        """The controller decided something else for the same epoch: the in-sync set, or the replicas."""
        partition = self._partition
        if state.partition_epoch >= partition.state.partition_epoch:
            partition.state = state
        self.replica_set.decided(state, now_ms=partition.broker.clock.monotonic_ms())
        self._known_end = self.log.log_end_offset
        self.commit()
        partition.watchers.noted()

    def refused(self) -> None:
        """The controller will not do what it was asked for; followers that belong into the in-sync set ask again."""
        self.replica_set.refused()
        self.commit()
        self._partition.watchers.noted()
