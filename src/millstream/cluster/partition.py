"""One partition as this broker has it: its log, who leads it, and how far it is committed.

All changes are plain functions on the event loop. Invariants:
- `high_watermark` never passes the log end, nor, where a flush is due, what is on disk (`log.durable_end`);
- consumers are shown nothing at or above the high watermark;
- with one replica in the in-sync set the high watermark follows the leader's own log; with more it is the smallest of their ends (the
  replica that fetches brings its end; that part comes with the cluster).

It does not wait: who wants to wait gives `high_watermark` or `durable` a callback.
"""

from collections.abc import Callable, Sequence

from millstream.buffer import Buffer
from millstream.cluster.watermark import Watermark
from millstream.coordination.partition_state import PartitionState
from millstream.errors import FencedLeaderEpoch, KafkaError, NotEnoughReplicas, NotLeaderOrFollower, OffsetOutOfRange, UnknownLeaderEpoch
from millstream.log.log import AppendResult, Log
from millstream.log.records.record_check import CheckedBatch, RecordCheck
from millstream.log.region import FileRegion

ACKS_ALL = -1
READ_COMMITTED = 1
NO_EPOCH = -1

FlushRequest = Callable[["Partition"], None]


class Partition:
    """A replica of a partition, and the leader's view of it when this broker leads."""

    __slots__ = ("_node_id", "_request_flush", "durable", "high_watermark", "index", "log", "state", "topic")

    def __init__(self, topic: str, index: int, log: Log, *, node_id: int, state: PartitionState, request_flush: FlushRequest) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.state = state
        self.durable = Watermark(log.durable_end)
        self.high_watermark = Watermark(log.log_start_offset)
        self._node_id = node_id
        self._request_flush = request_flush
        self.apply(state)

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""
        return self.state.leader == self._node_id

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided; the log says what holds it back."""
        return self.log.last_stable_offset(self.high_watermark.value)

    def apply(self, state: PartitionState) -> None:
        """Take over what the controller decided."""
        self.state = state
        if self.is_leader:
            self.log.assign_leader_epoch(state.leader_epoch)
            self._update_high_watermark()
        else:
            self.fail_waiters(NotLeaderOrFollower(f"broker {self._node_id} no longer leads {self.topic}-{self.index}"))

    def check_leader(self, leader_epoch: int = NO_EPOCH) -> None:
        """Raise unless this broker leads, and in the epoch that the client believes in (if it says one)."""
        if self.state.leader != self._node_id:
            raise NotLeaderOrFollower(f"broker {self._node_id} does not lead {self.topic}-{self.index}; broker {self.state.leader} does")
        if leader_epoch not in (NO_EPOCH, self.state.leader_epoch):
            error = FencedLeaderEpoch if leader_epoch < self.state.leader_epoch else UnknownLeaderEpoch
            raise error(f"{self.topic}-{self.index} is in leader epoch {self.state.leader_epoch}, the request says {leader_epoch}")

    def begin_record_check(self, batch: Buffer, *, acks: int, now_ms: int) -> RecordCheck | None:
        """Begin to look into a batch that is to be appended; None if it need not be looked into."""
        self._check_can_append(acks)
        return self.log.begin_record_check(batch, now_ms=now_ms)

    def append_as_leader(
        self, batch: Buffer, *, acks: int, now_ms: int, is_own: bool = False, checked: CheckedBatch | None = None
    ) -> AppendResult:
        """Append one batch, stamped with offset and epoch, and let the high watermark follow. `is_own`: the broker itself made it."""
        self._check_can_append(acks)
        log = self.log
        result = log.append_as_leader(batch, leader_epoch=self.state.leader_epoch, now_ms=now_ms, is_own=is_own, checked=checked)
        if log.is_flush_required:
            self._request_flush(self)
        self._update_high_watermark()
        return result

    def append_run_as_leader(self, batches: Sequence[Buffer], *, acks: int, now_ms: int) -> Sequence[AppendResult | Exception]:
        """Append several batches, each as `append_as_leader` would; per batch its place, or what is wrong with it."""
        self._check_can_append(acks)
        log = self.log
        results = log.append_run_as_leader(batches, leader_epoch=self.state.leader_epoch, now_ms=now_ms)
        if log.is_flush_required:
            self._request_flush(self)
        self._update_high_watermark()
        return results

    def commits_at_once(self, count: int) -> bool:
        """Whether so many more records would be committed as soon as they are appended: no other replica, no flush to wait for."""
        log = self.log
        return len(self.state.in_sync_replicas) == 1 and log.log_end_offset + count - log.durable_end < log.config.flush_messages

    def watermark_for(self, acks: int) -> Watermark | None:
        """What an answer to a produce with these acks has to wait for; None when it need not wait."""
        if acks == ACKS_ALL:
            return self.high_watermark
        return self.durable if acks and self.log.is_flush_required else None

    def visible_end(self, isolation_level: int) -> int:
        """Consumers of this isolation are shown nothing from here on."""
        return self.last_stable_offset if isolation_level == READ_COMMITTED else self.high_watermark.value

    def read(self, offset: int, *, max_bytes: int, isolation_level: int, min_one_batch: bool) -> FileRegion | None:
        """The bytes of batches from `offset` on that a consumer may see; None where there are none yet."""
        end = self.visible_end(isolation_level)
        if offset > self.log.log_end_offset or offset < self.log.log_start_offset:
            raise OffsetOutOfRange(
                f"offset {offset} of {self.topic}-{self.index} is outside {self.log.log_start_offset}..{self.log.log_end_offset}"
            )
        if offset >= end or (max_bytes <= 0 and not min_one_batch):
            return None
        return self.log.read(offset, max_bytes=max_bytes, limit_offset=end, min_one_batch=min_one_batch)

    def readable_bytes(self, offset: int, *, isolation_level: int) -> int | None:
        """How much of it a consumer at `offset` could get if nothing limited it; None if waiting will not make that more."""
        end = self.visible_end(isolation_level)
        return self.log.readable_bytes(offset, limit_offset=end) if offset < end else 0

    def find_divergence(self, last_fetched_epoch: int, offset: int) -> tuple[int, int] | None:
        """Where a reader that last read `last_fetched_epoch` before `offset` left this log's history; None if it did not (KIP-595)."""
        epoch, end_offset = self.log.end_offset_for_epoch(last_fetched_epoch)
        if epoch < 0 or offset < self.log.log_start_offset:
            raise OffsetOutOfRange(f"{self.topic}-{self.index} no longer knows epoch {last_fetched_epoch} at offset {offset}")
        return (epoch, end_offset) if epoch < last_fetched_epoch or end_offset < offset else None

    def delete_records_before(self, offset: int) -> int:
        """Move the log start to `offset` (-1: the high watermark); returns the new log start."""
        target = self.high_watermark.value if offset == -1 else offset
        if target < 0 or target > self.high_watermark.value:
            raise OffsetOutOfRange(
                f"cannot delete up to {offset}: {self.topic}-{self.index} is committed up to {self.high_watermark.value}"
            )
        self.log.delete_records_before(target)
        return self.log.log_start_offset

    def flushed(self) -> None:
        """The log was flushed: what is on disk may be acknowledged and shown."""
        self.durable.advance(self.log.durable_end)
        self._update_high_watermark()

    def fail_waiters(self, error: KafkaError) -> None:
        """Whoever waits for this partition waits in vain."""
        self.high_watermark.fail(error)
        self.durable.fail(error)

    def _check_can_append(self, acks: int) -> None:
        state = self.state
        if state.leader != self._node_id:
            raise NotLeaderOrFollower(f"broker {self._node_id} does not lead {self.topic}-{self.index}; broker {state.leader} does")
        if acks == ACKS_ALL and len(state.in_sync_replicas) < self.log.config.min_insync_replicas:
            raise NotEnoughReplicas(
                f"{self.topic}-{self.index} has {len(state.in_sync_replicas)} in-sync replica(s), "
                f"min.insync.replicas asks for {self.log.config.min_insync_replicas}"
            )

    def _update_high_watermark(self) -> None:
        log = self.log
        self.high_watermark.advance(log.durable_end if log.is_flush_required else log.log_end_offset)
