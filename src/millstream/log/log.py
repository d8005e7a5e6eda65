"""One partition: an append-only sequence of record batches, numbered record by record, kept in segments.

    log_start_offset  <=  log_end_offset           offset of the first readable record, offset of the next record to be written
    durable_end       <=  log_end_offset           everything below is on the disk: the recovery point

Invariants:
- the log is used from one thread; only `Flush.run` and the unlinking of files happen elsewhere;
- the batch is the unit: it is checked by its header, stamped with offset and leader epoch, written by one call from where it was received,
  and sent to consumers from the file. No record is looked at, no message is kept;
- an append either happened whole or not at all: a batch that fails while it is looked at, for whatever reason, changed nothing; one that
  fails after it got its place is cut off again and takes the directory offline. Nothing that was staged outlives the call that staged it;
- producers, epochs and indexes say nothing of batches that are not in the log.

Not here: who leads, what is committed (the high watermark is the caller's), waiting, compaction (`compacted_log`),
transactions. For the last, the first offset of the oldest open transaction will hold back `last_stable_offset`, and `.txnindex` files will
stand beside the segments.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from millstream.buffer import Buffer
from millstream.errors import OffsetOutOfRange, StorageError
from millstream.log.compacted_log import CompactedLog
from millstream.log.directories.checkpoints import TopicPartition
from millstream.log.directories.directory import LogDirectory
from millstream.log.directories.loading import LoadOrder
from millstream.log.kept_log import NO_TIME
from millstream.log.leader_epochs import EpochEnd
from millstream.log.records import record_check
from millstream.log.records.batch_check import check_batch, check_leader_batches, check_own_batch
from millstream.log.records.record_check import CheckedBatch, RecordCheck
from millstream.log.records.timestamp_search import LargestTimestampSearch, OffsetSearch, TimestampSearch
from millstream.log.region import FileRegion, find_region, find_stretch
from millstream.log.segment import MAX_RELATIVE_OFFSET
from millstream.wire.batch import STAMPED_SIZE, BatchHeader, read_header, stamp, with_log_append_time

MAX_STAGED = 1000
"""Buffers that one call writes, two per batch; Linux takes 1024."""


class AppendResult(NamedTuple):
    """Where a batch is now; `log_append_time_ms` is -1 when the producer's own times are kept."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool


class Log(CompactedLog):
    """The log of one partition. Opened by `LogManager`."""

    def __init__(self, directory: LogDirectory, topic_partition: TopicPartition, path: Path, order: LoadOrder) -> None:
        super().__init__(directory, topic_partition, path, order)
        self._staged: list[Buffer] = []
        self._append_from = (0, 0)
        """Log end offset and position in the active segment before what is being appended."""

    # -- appending

    def begin_record_check(self, batch: Buffer, *, now_ms: int, produce_version: int) -> RecordCheck | None:
        """Begin to look into a batch, for those who have no time to do it at once; None if it need not be looked into."""
        header = check_batch(batch, self.config, now_ms=now_ms, produce_version=produce_version)
        check = RecordCheck(batch, header, config=self.config, now_ms=now_ms)
        return check if check.is_needed else None

    def append_as_leader(
        self,
        batch: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        produce_version: int = 13,
        is_own: bool = False,
        checked: CheckedBatch | None = None,
    ) -> AppendResult:
        """Check and write a producer's batch at the end of the log; the broker's own are not looked into and may be large.

        `checked` is what came out of `begin_record_check`; it counts if the options are still the same.
        """
        try:
            result = self._stage(
                batch, leader_epoch=leader_epoch, now_ms=now_ms, produce_version=produce_version, is_own=is_own, checked=checked
            )
            self._write_staged()
        except BaseException as error:
            if self._staged:
                raise self._give_up(error) from error
            raise
        return result

    def append_run_as_leader(
        self, batches: Iterable[Buffer], *, leader_epoch: int, now_ms: int, produce_version: int = 13
    ) -> list[AppendResult | Exception]:
        """Check batches one by one and write those that are right by one call; per batch its place, or what is wrong with it."""
        results: list[AppendResult | Exception] = []
        try:
            for batch in batches:
                try:
                    results.append(self._stage(batch, leader_epoch=leader_epoch, now_ms=now_ms, produce_version=produce_version))
                except Exception as error:  # noqa: BLE001 -- handed on: what one batch brings up is no harm to those before and behind it
                    results.append(error)
            with suppress(StorageError):
                self._write_staged()
        except BaseException as error:
            if self._staged:
                raise self._give_up(error) from error
            raise
        if self.directory.offline is not None:
            # Some of the run may be in the file, but nobody can say so for sure: none of it is acknowledged.
            return [self._unusable()] * len(results)
        return results

    def _stage(
        self,
        batch: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        produce_version: int,
        is_own: bool = False,
        checked: CheckedBatch | None = None,
    ) -> AppendResult:
        """Check a batch and give it its place; `_write_staged` has to follow before anything else is done with the log."""
        if self._is_closed or self.directory.offline is not None:
            raise self._unusable()
        if is_own:
            header = check_own_batch(batch, self.config)
        else:
            header = check_batch(batch, self.config, now_ms=now_ms, produce_version=produce_version)
        if header.producer_id >= 0:
            written = self._producers.check(header)
            if written is not None:
                time_ms = written.timestamp if self.config.is_log_append_time else NO_TIME
                return AppendResult(written.base_offset, written.last_offset, time_ms, self.log_start_offset, True)
        append_time_ms = NO_TIME
        if self._is_rewriting and not (is_own and self._is_only_checking):
            batch, header, append_time_ms = self._rewritten(batch, header, now_ms=now_ms, checked=checked)
        size = len(batch)
        max_timestamp = header.max_timestamp
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        self._make_room(size, last_offset=last_offset, timestamp=max_timestamp, now_ms=now_ms)
        staged = self._staged
        if not staged:
            self._begin_append()
        try:
            staged += (stamp(header, base_offset=base_offset, leader_epoch=leader_epoch), memoryview(batch)[STAMPED_SIZE:])
            self._active.extend(size, last_offset=last_offset, max_timestamp=max_timestamp)
            self.log_end_offset = last_offset + 1
            if leader_epoch != self._epochs.latest:
                self._epochs.assign(leader_epoch, base_offset)
            if header.producer_id >= 0:
                self._producers.record(header, base_offset=base_offset)
            return AppendResult(base_offset, last_offset, append_time_ms, self.log_start_offset, False)
        except BaseException as error:
            raise self._give_up(error) from error

    def _begin_append(self) -> None:
        """From here on the log can be cut back to where it is now."""
        segment = self._active
        if not segment.is_open:
            with self.directory.guarded("opening a log"):
                segment.open()
        self._append_from = (self.log_end_offset, segment.size_bytes)

    def _write_staged(self) -> None:
        """Write the staged batches. If that fails the directory is offline, and what memory says of them is never used again."""
        if not self._staged:
            return
        try:
            self._active.write(self._staged, self._append_from[1])
            self._staged.clear()
        except BaseException as error:
            raise self._give_up(error) from error

    def _give_up(self, error: BaseException) -> StorageError:
        """Cut the file back to where the append began and take the directory offline; the error for the client.

        Whatever the reason was, memory may say more, or less, than the file; only recovery can mend that.
        """
        self._staged.clear()
        self.log_end_offset, position = self._append_from
        # If not even that works, recovery will do it: the directory is offline from here on and is not marked clean.
        with suppress(OSError):
            self._active.cut(position)
        return self.directory.fail_for_good("appending to a log", error)

    def append_as_follower(self, batches: Buffer, *, now_ms: int) -> int:
        """Write what the leader sent, offsets and epochs as they are; the new log end offset."""
        self._check_usable()
        headers = check_leader_batches(batches, log_end_offset=self.log_end_offset)
        view, position = memoryview(batches), 0
        for header in headers:
            size = header.size_bytes
            self._make_room(size, last_offset=header.last_offset, timestamp=header.max_timestamp, now_ms=now_ms)
            if header.last_offset - self._active.base_offset > MAX_RELATIVE_OFFSET:
                self.roll_to(header.base_offset, now_ms=now_ms)
            self._begin_append()
            try:
                self._active.write([view[position : position + size]], self._active.size_bytes)
                self._active.extend(size, last_offset=header.last_offset, max_timestamp=header.max_timestamp)
                self.log_end_offset = header.next_offset
                if header.leader_epoch > self._epochs.latest:
                    self._epochs.assign(header.leader_epoch, header.base_offset)
                if header.producer_id >= 0 and not header.is_control:
                    self._producers.record(header, base_offset=header.base_offset)
            except BaseException as error:
                raise self._give_up(error) from error
            position += size
        return self.log_end_offset

    # -- reading

    def read(self, offset: int, *, max_bytes: int, limit_offset: int, min_one_batch: bool = True) -> FileRegion | None:
        """The piece of a segment from the batch that holds `offset` on, below `limit_offset`; None when there is nothing yet."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"offset {offset} is not between {self.log_start_offset} and {self.log_end_offset}")
        if self._is_closed or self.directory.offline is not None:
            raise self._unusable()
        if offset >= limit_offset:
            return None
        try:
            return find_region(
                self._segments,
                offset,
                max_bytes=max_bytes,
                limit_offset=limit_offset,
                log_end_offset=self.log_end_offset,
                min_one_batch=min_one_batch,
            )
        except OSError as error:
            raise self.directory.fail("reading a log", error) from error

    def readable_bytes(self, offset: int, *, limit_offset: int) -> int | None:
        """How much a reader at `offset` could get at once if nothing else limited it; None if waiting will not make that more."""
        self._check_usable()
        with self.directory.guarded("reading a log"):
            stretch = find_stretch(self._segments, offset, limit_offset=limit_offset, log_end_offset=self.log_end_offset)
        if stretch is None:
            return 0
        _, position, end, is_final = stretch
        return None if is_final else end - position

    def search_timestamp(self, timestamp_ms: int, *, limit_offset: int) -> OffsetSearch:
        """A search for the first record at or after the time, below `limit_offset`."""
        return TimestampSearch(timestamp_ms, from_offset=self.log_start_offset, limit_offset=limit_offset)

    def search_max_timestamp(self) -> OffsetSearch:
        """A search for the record with the largest time."""
        return LargestTimestampSearch(from_offset=self.log_start_offset)

    def advance_search(self, search: OffsetSearch, units: int) -> int:
        """Let a search go on for so many units of work; how many are left."""
        self._check_usable()
        with self.directory.guarded("reading a log"):
            return search.advance(self._segments, units)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch not above the one asked for, and where it ended (KIP-279)."""
        return self._epochs.end_of(epoch, log_end_offset=self.log_end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch in which the record was written; -1 when it is not known."""
        return self._epochs.epoch_of(offset)

    # -- inside

    def _rewritten(
        self, batch: Buffer, header: BatchHeader, *, now_ms: int, checked: CheckedBatch | None
    ) -> tuple[Buffer, BatchHeader, int]:
        """The batch as the topic wants it stored, where that is not how it came."""
        if checked is None or checked.config is not self.config:
            checked = record_check.checked(batch, header, config=self.config, now_ms=now_ms)
        batch, header, _ = checked
        if not self.config.is_log_append_time:
            return batch, header, NO_TIME
        batch = with_log_append_time(batch, now_ms=now_ms)
        return batch, read_header(batch), now_ms

    def _make_room(self, size: int, *, last_offset: int, timestamp: int, now_ms: int) -> None:
        """Roll if the next batch does not belong into the active segment any more."""
        segment = self._active
        used = segment.size_bytes
        if not used:
            return
        if (
            used + size > self.config.segment_bytes
            or segment.is_index_full
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            or self._age_of_active(now_ms, timestamp) > self._roll_after_ms
        ):
            self._write_staged()
            self.roll(now_ms=now_ms)
        elif len(self._staged) >= MAX_STAGED:
            self._write_staged()
