"""What readers are shown of a replica, whatever its role: leaders and followers read their logs alike (KIP-392).

- consumers are shown nothing at or above the high watermark, as far as this replica knows it; readers of committed data nothing at or above
  the last stable offset, which each replica computes from its own log. What a follower shows may end before what its leader would show, and
  is the same up to there;
- followers, which fetch from leaders only, are shown everything.
"""

from typing import TYPE_CHECKING, Final

from millstream.errors import OffsetOutOfRange
from millstream.log.log import Log
from millstream.log.region import FileRegion

if TYPE_CHECKING:
    from millstream.cluster.partition import Partition

READ_COMMITTED: Final = 1


class ReadableReplica:
    """The log of a partition, as readers see it."""

    __slots__ = ("_partition", "log")

    def __init__(self, partition: "Partition", log: Log) -> None:
        self._partition = partition
        self.log = log

    def visible_end(self, isolation_level: int, *, is_replica: bool = False) -> int:
        """Readers of this kind are shown nothing from here on."""
        if is_replica:
            return self.log.log_end_offset
        partition = self._partition
        return partition.last_stable_offset if isolation_level == READ_COMMITTED else partition.high_watermark.value

    def read(self, offset: int, *, end: int, max_bytes: int, min_one_batch: bool, is_replica: bool = False) -> FileRegion | None:
        """The bytes of batches from `offset` on, below the reader's `visible_end`; None where there are none yet.

        A replica gets batches without records, too: they may be all that is left of a producer's sequence.
        """
        log = self.log
        if offset > log.log_end_offset or offset < log.log_start_offset:
            raise OffsetOutOfRange(f"offset {offset} of {log.topic_partition} is outside {log.log_start_offset}..{log.log_end_offset}")
        if offset >= end or (max_bytes <= 0 and not min_one_batch):
            return None
        return log.read(offset, max_bytes=max_bytes, limit_offset=end, min_one_batch=min_one_batch, skips_emptied=not is_replica)

    def aborted_in(self, offset: int, region: FileRegion) -> list[tuple[int, int]]:
        """Producer id and first offset of each aborted transaction that a reader of committed data at `offset` has to leave out.

        Only worth asking where the log has any (`LocalLog.has_aborted`).
        """
        from millstream.log.transactions.committed_reads import aborted_in_region  # most logs have none

        return [(aborted.producer_id, aborted.first_offset) for aborted in aborted_in_region(self.log, offset, region)]

    def find_divergence(self, last_fetched_epoch: int, offset: int) -> tuple[int, int] | None:
        """Where a reader that last read `last_fetched_epoch` before `offset` left this log's history; None if it did not (KIP-595)."""
        log = self.log
        if last_fetched_epoch == log.epochs.latest and log.log_start_offset <= offset <= log.log_end_offset:
            return None
        epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
        if epoch < 0 or offset < log.log_start_offset:
            raise OffsetOutOfRange(f"{log.topic_partition} no longer knows epoch {last_fetched_epoch} at offset {offset}")
        return (epoch, end_offset) if epoch < last_fetched_epoch or end_offset < offset else None
