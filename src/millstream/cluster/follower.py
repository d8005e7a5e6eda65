"""The role of a follower of a partition: it appends what the leader has, as it is, and cuts off what the leader has not.

It belongs to one leader and one leader epoch; another one begins with a new object. No sockets here: `broker/replication` fetches.

- what is appended is what the leader's log holds, byte for byte: offsets, epochs and CRCs are the leader's;
- the offset it fetches next says how far it has come, and the leader counts on it: where a flush is due (`flush.messages`), nothing is
  fetched before it is on disk (`flushed`);
- the high watermark is the leader's, as far as the own log goes; it says where a new leader begins, and never where to truncate;
- consumers read from it as they do from the leader (`readable_replica`, KIP-392), and are woken when the high watermark moves here;
- while a thread cuts the log (`is_truncating`) nothing else touches it, consumers go to the leader, and the role stays until that is over
  (`Partition.settle`).
"""

import asyncio
from typing import TYPE_CHECKING

from millstream.cluster.readable_replica import ReadableReplica
from millstream.cluster.truncation import truncation_offset
from millstream.errors import NotLeaderOrFollower
from millstream.log.leader_epochs import EpochEnd
from millstream.log.truncation import Truncation
from millstream.wire.batch import HEADER_SIZE, read_header

if TYPE_CHECKING:
    from millstream.cluster.partition import Partition


class Follower(ReadableReplica):
    """This broker follows another one in one leader epoch."""

    __slots__ = ("leader", "leader_epoch")

    def __init__(self, partition: "Partition", *, leader: int, leader_epoch: int) -> None:
        super().__init__(partition, partition.log)
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.log.forget_empty_epochs()

    def __repr__(self) -> str:
        return f"Follower({self.log.topic_partition} of broker {self.leader}, epoch {self.leader_epoch})"

    @property
    def partition(self) -> "Partition":
        """The replica that has this role."""
        return self._partition

    @property
    def is_current(self) -> bool:
        """Whether this is still the role of the partition."""
        return self._partition.following is self

    @property
    def is_truncating(self) -> bool:
        """Whether a thread is cutting the log."""
        return self.log.is_truncating

    @property
    def fetch_offset(self) -> int:
        """What comes next; everything before it is here."""
        return self.log.log_end_offset

    @property
    def last_fetched_epoch(self) -> int:
        """The epoch of the last record; -1 if there is none. By it the leader sees whether their histories are the same."""
        return self.log.epoch_of(self.log.log_end_offset - 1)

    @property
    def log_start_offset(self) -> int:
        """Where the log begins here."""
        return self.log.log_start_offset

    def append(self, records: memoryview, *, high_watermark: int, leader_log_start: int) -> None:
        """Append the whole batches in `records`; CorruptMessage, and nothing is appended, if they do not follow what is here."""
        self._check_free()
        partition, log = self._partition, self.log
        if len(records):
            log.append_as_follower(records, now_ms=partition.broker.clock.now_ms())
            if log.is_flush_required:
                partition.broker.request_flush(partition)
        self._advance(min(high_watermark, log.log_end_offset))
        partition.forget_replicated_transactions()
        if leader_log_start > log.log_start_offset:
            log.delete_records_before(min(leader_log_start, partition.high_watermark.value))
            partition.watchers.noted()

    def _advance(self, high_watermark: int) -> None:
        """Show consumers that read here what is committed."""
        partition = self._partition
        if high_watermark > partition.high_watermark.value:
            partition.high_watermark.advance(high_watermark)
            partition.watchers.committed()

    @property
    def awaits_flush(self) -> bool:
        """Whether something has to be on disk before the leader may hear of it: `flushed` waits for that."""
        return self.log.is_flush_required

    async def flushed(self) -> None:
        """Wait until everything is on disk that was appended by now; raises if that will never be."""
        self.log.check_usable()
        self._partition.broker.request_flush(self._partition)  # recovery, or another value of the option, may have left it to do
        await self._partition.durable.reached(self.log.log_end_offset)

    def start_before(self, records: memoryview) -> int | None:
        """Where the log has to begin so that `records` fit: before its start, if it is empty and the leader's begins inside a batch."""
        log = self.log
        if log.log_start_offset != log.log_end_offset or len(records) < HEADER_SIZE:
            return None
        first = read_header(records)
        return first.base_offset if first.base_offset < log.log_end_offset <= first.last_offset else None

    async def truncate(self, diverging: EpochEnd) -> None:
        """Cut off what the leader has not: their histories part at the end of `diverging`. ValueError if that cannot be."""
        await self.truncate_to(truncation_offset(self.log.epochs, diverging, log_end_offset=self.log.log_end_offset))

    async def truncate_to(self, offset: int) -> None:
        """Cut off everything from `offset` on."""
        self._check_free()
        await self._carry_out(Truncation(self.log, offset))

    async def restart_at(self, offset: int) -> None:
        """Drop everything, and begin anew at `offset`: the leader has nothing of what would come next here."""
        self._check_free()
        await self._carry_out(Truncation(self.log, offset, is_whole=True))

    def _check_free(self) -> None:
        """Raise while a thread has the log: what was fetched for it beside that, by another fetcher, says nothing of what it will be."""
        if self.is_truncating:
            raise NotLeaderOrFollower(f"{self.log.topic_partition} is being cut")

    async def _carry_out(self, truncation: Truncation) -> None:
        running = asyncio.get_running_loop().run_in_executor(None, truncation.run)
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            await asyncio.wait((running,))  # a thread cannot be stopped, and has the log for itself
            running.exception()
            raise
        finally:
            truncation.end()
            self._partition.truncated()
        running.result()
