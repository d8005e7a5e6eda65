"""One partition: an append-only sequence of record batches, numbered record by record, kept in segments.

    log_start_offset  <=  log_end_offset           offset of the first readable record, offset of the next record to be written
    durable_end       <=  log_end_offset           everything below is on the disk: the recovery point

Invariants:
- the log is used from one thread at a time; only `Flush.run` and the unlinking of files happen beside it;
- the batch is the unit: it is checked by its header, stamped with offset and leader epoch, written by one call from where it was received,
  and sent to consumers from the file. No record is looked at, no message is kept;
- an append either happened whole or not at all: a batch that fails while it is looked at, for whatever reason, changed nothing; one that
  fails after it got its place is cut off again and takes the directory offline. Nothing that was staged outlives the call that staged it;
- producers, epochs and indexes say nothing of batches that are not in the log.

It keeps its files (`local_log`), `producer_state` and `leader_epochs` in step. Not here: who leads, what is committed, compaction.
"""

import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from millstream.buffer import Buffer
from millstream.errors import OffsetOutOfRange, StorageError
from millstream.log.config import LogConfig
from millstream.log.directories.directory import LogDirectory
from millstream.log.flush import Flush
from millstream.log.leader_epochs import EpochEnd
from millstream.log.loading import LoadOrder, load_log
from millstream.log.local_log import LocalLog
from millstream.log.producer_state import TransactionalWrites, without_transactional_id
from millstream.log.records import record_check
from millstream.log.records.batch_check import check_batch, check_copied_batches, check_own_batch
from millstream.log.records.record_check import CheckedBatch, RecordCheck
from millstream.log.records.timestamp_search import OffsetSearch
from millstream.log.region import FileRegion, find_region, find_stretch
from millstream.log.segment import MAX_RELATIVE_OFFSET
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import NO_TIMESTAMP, STAMPED_SIZE, TRANSACTIONAL, BatchHeader, stamp

REFUSED = TransactionalWrites.REFUSED
MAX_STAGED = 1000
"""Buffers that one call writes, two per batch; Linux takes 1024."""


class AppendResult(NamedTuple):
    """Where a batch is now; `log_append_time_ms` is -1 when the producer's own times are kept."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool


class Log:
    """The log of one partition. Opened by `LogManager`."""

    def __init__(self, directory: LogDirectory, topic_partition: TopicPartition, path: Path, order: LoadOrder) -> None:
        loaded = load_log(directory, path, order)
        self.topic_partition = topic_partition
        self.topic, self.partition = topic_partition
        self.topic_id: uuid.UUID | None = None
        self.use(loaded.local)
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.producers = loaded.producers
        self.is_closed = False
        self.is_truncating = False  # by a thread (`truncation`)
        self.truncation_count = 0
        """Whoever works on a copy of the segments sees by it whether they are still the same."""
        self._staged: list[Buffer] = []
        self.bytes_written = 0  # since it was opened
        self._append_from = (0, 0)
        """Log end offset and position in the active segment before what is being appended."""
        self.update_config(order.config)

    def use(self, local: LocalLog) -> None:
        """Go on with these files, which hold all that the log does: after it was opened, and when it has moved (`moving`)."""
        self.local, self.directory, self.path = local, local.directory, local.path
        self.segments, self.epochs, self._active = local.segments, local.epochs, local.segments.active

    # -- what it is now

    @property
    def durable_end(self) -> int:
        """Everything below is on the disk."""
        return self.local.durable_end

    @property
    def size_bytes(self) -> int:
        """Bytes of batches on disk."""
        return self.segments.size_bytes

    @property
    def segment_base_offsets(self) -> list[int]:
        """Where the segments start, oldest first."""
        return [segment.base_offset for segment in self.segments]

    @property
    def starts_inside(self) -> bool:
        """Whether it begins after its first segment does; while a thread changes the segments, that is taken for granted."""
        return self.is_truncating or self.log_start_offset > self.segments.first.base_offset

    def last_stable_offset(self, high_watermark: int) -> int:
        """The end of what a reader of committed data may see: where the oldest transaction began that is open, or whose end may be lost."""
        transactions = self.producers.transactions
        if transactions is not None:
            first_unstable_offset = transactions.first_unstable_offset(high_watermark)
            if first_unstable_offset is not None:
                return min(max(first_unstable_offset, self.log_start_offset), high_watermark)
        return high_watermark

    def update_config(self, config: LogConfig) -> None:
        """Use other options from now on."""
        self.config = config
        self.looks_into_records = record_check.is_needed(config)  # then an append costs time per record
        self.is_mirrored = bool(config.mirror_source)  # then only a mirror may write to it
        self.takes_runs = not (self.looks_into_records or self.is_closed)
        """Whether several batches may be handed over at once: it is in use, and each takes next to no time."""
        self._is_rewriting = config.is_log_append_time or self.looks_into_records
        self._own_codecs = frozenset() if config.is_log_append_time else record_check.kept_codecs(config)
        """The codecs in which what the broker itself wrote is stored as it is, unseen."""
        self._active.update_config(config)
        self.directory.to_flush.add(self.topic_partition)

    def write_topic_id(self, topic_id: uuid.UUID) -> None:
        """Note in a new directory which topic it belongs to."""
        self.topic_id = topic_id
        self.local.write_topic_id(topic_id)

    def check_usable(self) -> None:
        """Raise if the log is closed or its directory is offline."""
        if self.is_closed or self.directory.offline is not None:
            raise self._unusable()

    # -- appending

    def begin_record_check(self, batch: Buffer, *, now_ms: int) -> RecordCheck | None:
        """Begin to look into a batch, for those who have no time to do it at once; None if it need not be looked into."""
        header = check_batch(batch, self.config, now_ms=now_ms)
        check = RecordCheck(batch, header, config=self.config, now_ms=now_ms)
        return check if check.is_needed else None

    def append_as_leader(
        self,
        batch: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        is_own: bool = False,
        checked: CheckedBatch | None = None,
        transactional: TransactionalWrites = REFUSED,
    ) -> AppendResult:
        """Check and write a producer's batch at the end of the log; the broker's own are not looked into and may be large.

        `checked` is what came out of `begin_record_check`; it counts if the options are still the same.
        """
        try:
            result = self._stage(batch, leader_epoch, now_ms, is_own, checked, transactional)
            self._write_staged()
        except BaseException as error:
            if self._staged:
                raise self._give_up(error) from error
            raise
        return result

    def append_run_as_leader(
        self, batches: Iterable[Buffer], *, leader_epoch: int, now_ms: int, transactional: TransactionalWrites = REFUSED
    ) -> list[AppendResult | Exception]:
        """Check batches one by one and write those that are right by one call; per batch its place, or what is wrong with it."""
        results: list[AppendResult | Exception] = []
        try:
            for batch in batches:
                try:
                    results.append(self._stage(batch, leader_epoch, now_ms, False, None, transactional))
                except Exception as error:  # noqa: BLE001 -- handed on: what one batch brings up is no harm to those before and behind it
                    results.append(error)
            self._write_staged()
        except BaseException as error:
            if self._staged:
                raise self._give_up(error) from error
            if not isinstance(error, StorageError):
                raise
        if self.directory.offline is not None:
            # Some of the run may be in the file, but which of it is not known: none is acknowledged.
            return [self._unusable()] * len(results)
        return results

    def _stage(  # noqa: PLR0917 -- called for every batch
        self, batch: Buffer, leader_epoch: int, now_ms: int, is_own: bool, checked: CheckedBatch | None, transactional: TransactionalWrites
    ) -> AppendResult:
        """Check a batch and give it its place; `_write_staged` has to follow before anything else is done with the log."""
        if self.is_closed or self.directory.offline is not None:
            raise self._unusable()
        header = check_own_batch(batch, self.config) if is_own else check_batch(batch, self.config, now_ms=now_ms)
        if header.producer_id >= 0:
            written = self.producers.check(header, TransactionalWrites.VERIFIED if is_own else transactional)
            if written is not None:
                time_ms = written.timestamp if self.config.is_log_append_time else NO_TIMESTAMP
                return AppendResult(written.base_offset, written.last_offset, time_ms, self.log_start_offset, True)
        elif header.attributes & TRANSACTIONAL and transactional is REFUSED and not is_own:
            raise without_transactional_id()
        append_time_ms = NO_TIMESTAMP
        if self._is_rewriting and not (is_own and header.codec in self._own_codecs):
            batch, header, append_time_ms = record_check.as_stored(batch, header, config=self.config, now_ms=now_ms, known=checked)
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
            if leader_epoch != self.epochs.latest:
                self.epochs.assign(leader_epoch, base_offset)
            if header.producer_id >= 0:
                aborted = self.producers.learn(header, batch, base_offset=base_offset)
                if aborted is not None:
                    self.local.add_aborted(aborted)
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
            self.bytes_written += self._active.size_bytes - self._append_from[1]
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
        """Write what the leader sent, offsets and epochs as they are, by one call per segment; the new log end offset."""
        self.check_usable()
        self.append_copied(check_copied_batches(batches, log_end_offset=self.log_end_offset), batches, now_ms=now_ms)
        return self.log_end_offset

    def append_copied(self, headers: list[BatchHeader], batches: Buffer, *, now_ms: int, leader_epoch: int | None = None) -> None:
        """Write batches that were checked and keep their offsets; with another leader epoch, if one is given."""
        view, start, end = memoryview(batches), 0, 0
        try:
            for header in headers:
                start, end = end, end + header.size_bytes
                self._stage_copied(header, view[start:end], now_ms=now_ms, leader_epoch=leader_epoch)
            self._write_staged()
        except BaseException as error:
            if self._staged:
                raise self._give_up(error) from error
            raise

    def _stage_copied(self, header: BatchHeader, batch: memoryview, *, now_ms: int, leader_epoch: int | None) -> None:
        base_offset, last_offset, max_timestamp = header.base_offset, header.last_offset, header.max_timestamp
        self._make_room(len(batch), last_offset=last_offset, timestamp=max_timestamp, now_ms=now_ms)
        if last_offset - self._active.base_offset > MAX_RELATIVE_OFFSET:
            self.roll_to(base_offset, now_ms=now_ms)
        if not self._staged:
            self._begin_append()
        if leader_epoch is None:
            leader_epoch = header.leader_epoch
            self._staged.append(batch)
        else:
            self._staged += (stamp(header, base_offset=base_offset, leader_epoch=leader_epoch), batch[STAMPED_SIZE:])
        self._active.extend(len(batch), last_offset=last_offset, max_timestamp=max_timestamp)
        self.log_end_offset = last_offset + 1
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        if header.producer_id >= 0:
            aborted = self.producers.learn(header, batch, base_offset=base_offset)
            if aborted is not None:
                self.local.add_aborted(aborted)

    # -- reading

    def read(
        self, offset: int, *, max_bytes: int, limit_offset: int, min_one_batch: bool = True, skips_emptied: bool = False
    ) -> FileRegion | None:
        """The piece of a segment from the batch that holds `offset` on, below `limit_offset`; None when there is nothing yet."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"offset {offset} is not between {self.log_start_offset} and {self.log_end_offset}")
        if self.is_closed or self.directory.offline is not None:
            raise self._unusable()
        if offset >= limit_offset:
            return None
        try:
            return find_region(
                self.segments,
                offset,
                max_bytes=max_bytes,
                limit_offset=limit_offset,
                log_end_offset=self.log_end_offset,
                min_one_batch=min_one_batch,
                skips_emptied=skips_emptied,
            )
        except OSError as error:
            raise self.directory.fail("reading a log", error) from error

    def readable_bytes(self, offset: int, *, limit_offset: int) -> int | None:
        """How much a reader at `offset` could get at once if nothing else limited it; None if waiting will not make that more."""
        self.check_usable()
        with self.directory.guarded("reading a log"):
            stretch = find_stretch(self.segments, offset, limit_offset=limit_offset, log_end_offset=self.log_end_offset)
        if stretch is None:
            return 0
        _, position, end, is_final = stretch
        return None if is_final else end - position

    def advance_search(self, search: OffsetSearch, units: int) -> int:
        """Let a search go on for so many units of work; how many are left."""
        self.check_usable()
        with self.directory.guarded("reading a log"):
            return search.advance(self.segments, units)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch not above the one asked for, and where it ended (KIP-279)."""
        return self.epochs.end_of(epoch, log_end_offset=self.log_end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch in which the record was written; -1 when it is not known."""
        return self.epochs.epoch_of(offset)

    def forget_empty_epochs(self) -> None:
        """This broker follows: an epoch in which it led and wrote nothing must not stand for what the leader has there."""
        self.epochs.truncate_from_end(self.log_end_offset)

    # -- rolling

    def assign_leader_epoch(self, epoch: int) -> None:
        """This broker leads from the end of the log on."""
        self.check_usable()
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, self.log_end_offset)

    def roll(self, *, now_ms: int) -> None:
        """Seal the active segment and start a new one at the end of the log; nothing happens if it is empty."""
        self.check_usable()
        if self._active.size_bytes:
            with self.directory.changing("rolling a log", is_undone=True):
                self._active = self.local.roll(self.log_end_offset, self.producers, config=self.config, now_ms=now_ms)
            self.directory.to_flush.add(self.topic_partition)

    def roll_to(self, offset: int, *, now_ms: int) -> None:
        """Start a segment at `offset`, beyond the end of the log: what a leader sent lies too far from the base of the active one."""
        self.roll(now_ms=now_ms)
        with self.directory.changing("rolling a log", is_undone=True):
            self._active = self.local.start_anew_at(offset, config=self.config, now_ms=now_ms)
        self.directory.to_flush.add(self.topic_partition)
        self.log_end_offset = offset  # as a restart would find it, should what is to come next not get here
        self.log_start_offset = max(self.log_start_offset, self.segments.first.base_offset)

    # -- making it durable

    @property
    def is_flush_required(self) -> bool:
        """Whether `flush.messages` wants a sync before anything above `durable_end` is acknowledged."""
        return self.log_end_offset - self.local.durable_end >= self.config.flush_messages

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether it is time to sync, whoever waits for it; a log that is being cut is synced by that."""
        return not self.is_truncating and self.local.is_flush_due(self.log_end_offset, self.config, now_ms=now_ms)

    def begin_flush(self) -> Flush | None:
        """What has to be synced so that everything written by now is durable; None if nothing is, or a flush is under way."""
        is_unusable = self.is_closed or self.is_truncating or self.directory.offline is not None
        return None if is_unusable else self.local.begin_flush(self.log_end_offset)

    def flush_recovered(self) -> None:
        """Where acknowledged means on disk, sync what recovery found before a client sees it, or sees that it is gone."""
        if self.is_flush_required and self.begin_flush() is not None:
            self.local.finish_flush()

    def complete_flush(self, flush: Flush, *, now_ms: int) -> None:
        """The flush has run: everything below its end is durable."""
        self.local.complete_flush(flush, now_ms=now_ms)

    def fail_flush(self, flush: Flush, error: OSError) -> None:
        """The flush failed: the directory goes offline."""
        self.local.fail_flush(flush, error)

    def begin_close(self) -> Flush | None:
        """Complete the indexes and leave a producer snapshot; what has to be synced then, None if nothing has changed.

        `Flush.run` may be called in a thread, so that many logs are synced at once; then comes `abandon`. A flush under way is waited for.
        """
        is_unusable = self.is_closed or self.directory.offline is not None
        return None if is_unusable else self.local.begin_close(self.log_end_offset, self.producers)

    def close(self) -> None:
        """Make everything durable and let go of the files; a log that did not change is left as it is."""
        if (flush := self.begin_close()) is not None:
            with self.directory.guarded("closing a log"):
                flush.run()
        self.abandon(is_durable=self.directory.offline is None)

    def abandon(self, *, is_durable: bool = False) -> None:
        """Let go of the files as they are; the log can no longer be used."""
        self.is_closed = True
        self.takes_runs = False
        self.local.abandon()
        if is_durable:
            self.local.durable_end = self.log_end_offset

    # -- making it shorter

    def delete_records_before(self, offset: int) -> int:
        """Move the start of the log up to `offset`; the new start. Segments before it go when retention is applied."""
        self.check_usable()
        if offset > self.log_end_offset or offset < 0:
            raise OffsetOutOfRange(f"records before {offset} cannot be deleted: the log ends at {self.log_end_offset}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)
        return self.log_start_offset

    def truncate_to(self, offset: int) -> None:
        """Drop everything from `offset` on; a batch that holds it goes as a whole, and the log ends before it."""
        self.check_usable()
        if offset >= self.log_end_offset:
            self.forget_empty_epochs()
            return
        if offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        self._forget_before_truncation(offset)
        with self.directory.changing("truncating a log"):
            end = self.local.truncate_to(offset, config=self.config)
            self._active = self.segments.active
            self.log_end_offset = end
            self.log_start_offset = min(self.log_start_offset, end)
            self.epochs.truncate_from_end(end)
            self.producers = self.local.snapshots.load(self.segments, end=end)

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int = NO_TIMESTAMP) -> None:
        """Drop everything and go on at `offset`."""
        self.check_usable()
        self._forget_before_truncation(min(offset, self.segments.first.base_offset))
        with self.directory.changing("truncating a log"):
            self.local.truncate_fully_and_start_at(offset, config=self.config, now_ms=now_ms)
            self._active = self.segments.active
            self.log_start_offset = self.log_end_offset = offset
            self.epochs.clear()
            self.producers.clear()

    def delete_oldest(self, count: int) -> list[Path]:
        """Drop the oldest segments, if what is left of the log is on the disk; the renamed files, to be unlinked later."""
        with self.directory.changing("deleting old segments"):
            marked = self.local.delete_oldest(count)
            if marked:
                self.log_start_offset = max(self.log_start_offset, self.segments.first.base_offset)
                self.epochs.truncate_from_start(self.log_start_offset)
        return marked

    # -- inside

    def _unusable(self) -> StorageError:
        return StorageError(self.directory.offline or f"the log of {self.topic_partition} is closed")

    def _make_room(self, size: int, *, last_offset: int, timestamp: int, now_ms: int) -> None:
        """Roll if the next batch does not belong into the active segment any more."""
        try:
            is_full = self._active.should_roll(size, last_offset=last_offset, timestamp=timestamp, now_ms=now_ms)
        except OSError as error:
            raise self.directory.fail("reading a log", error) from error
        if is_full or len(self._staged) >= MAX_STAGED:
            self._write_staged()
        if is_full:
            self.roll(now_ms=now_ms)

    def _forget_before_truncation(self, offset: int) -> None:
        """Before anything is cut: no checkpoint and no compaction may speak of what was there any more."""
        self.truncation_count += 1
        self.directory.lower_recovery_point(self.topic_partition, offset)
        self.directory.lower_cleaned_offset(self.topic_partition, offset)
