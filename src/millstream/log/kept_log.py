"""The files of one partition as a whole: what is in them, how much of it is on the disk, and how it gets shorter.

    log_start_offset  <=  log_end_offset           offset of the first readable record, offset of the next record to be written
    durable_end       <=  log_end_offset           everything below is on the disk: the recovery point

`Log` adds the two hot paths, appending and reading. Here are the state both work on, rolling, flushing, closing, retention and truncation.
Nothing here looks at a batch.
"""

import random
import uuid
from pathlib import Path

from millstream.errors import OffsetOutOfRange, StorageError
from millstream.files import FileHandle
from millstream.log import leader_epochs
from millstream.log.compaction.cleaning import Cleaning
from millstream.log.config import LogConfig
from millstream.log.directories.checkpoints import PARTITION_METADATA, TopicPartition, render_partition_metadata
from millstream.log.directories.directory import LogDirectory
from millstream.log.flush import Flush, Unsynced
from millstream.log.loading import LoadOrder, load_log
from millstream.log.producer_state import ProducerEntry
from millstream.log.records import record_check
from millstream.log.recovery import end_of
from millstream.log.retention import RetentionBounds, count_to_delete
from millstream.log.segment import Segment

NO_TIME = -1


class KeptLog:
    """Segments, producers, epochs and indexes of one partition, and their durability."""

    def __init__(self, directory: LogDirectory, topic_partition: TopicPartition, path: Path, order: LoadOrder) -> None:
        loaded = load_log(directory.files, path, order)
        self.topic, self.partition = topic_partition
        self.path = path
        self.directory = directory
        self.topic_id: uuid.UUID | None = None
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.durable_end = loaded.durable_end
        self.last_flush_ms = order.now_ms
        self._files = directory.files
        self._segments = loaded.segments
        self._active = loaded.segments.active
        self._producers = loaded.producers
        self._epochs = loaded.epochs
        self._snapshots = loaded.snapshots
        self._flush: Flush | None = None
        self._is_flush_wanted = False
        self._cleaning: Cleaning | None = None
        self._unsynced = Unsynced()
        if not order.is_clean:
            # It is not known which names and small files had reached the disk.
            self._unsynced.note(path / PARTITION_METADATA, path, path.parent)
        self._closed_end = loaded.log_end_offset if order.is_clean else -1
        self._is_closed = False
        self.update_config(order.config)

    # -- what it is now

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition number."""
        return (self.topic, self.partition)

    @property
    def size_bytes(self) -> int:
        """Bytes of batches on disk."""
        return self._segments.size_bytes

    @property
    def latest_epoch(self) -> int:
        """The latest leader epoch the log knows; -1 for none."""
        return self._epochs.latest

    @property
    def active_producers(self) -> list[ProducerEntry]:
        """The idempotent producers the log remembers."""
        return list(self._producers)

    @property
    def segment_base_offsets(self) -> list[int]:
        """Where the segments start, oldest first."""
        return [segment.base_offset for segment in self._segments]

    def last_stable_offset(self, high_watermark: int) -> int:
        """The end of what a reader of committed transactions may see: without transactions, the high watermark."""
        return high_watermark

    def update_config(self, config: LogConfig) -> None:
        """Use other options from now on."""
        self.config = config
        self.looks_into_records = record_check.is_needed(config)
        """Whether an append costs time per record."""
        self.takes_runs = not (self.looks_into_records or self._is_closed)
        """Whether several batches may be handed over at once: it is in use, and each takes next to no time."""
        self._is_rewriting = config.is_log_append_time or self.looks_into_records
        self._is_only_checking = not config.is_log_append_time and config.compression_type == "producer"
        self._active.update_config(config)
        # The active segment is not compacted: a record must not wait in it for longer than it may wait for compaction.
        segment_ms = min(config.segment_ms, config.max_compaction_lag_ms) if config.is_compacted else config.segment_ms
        jitter = min(config.segment_jitter_ms, segment_ms)
        self._roll_after_ms = segment_ms - (random.randrange(jitter) if jitter > 0 else 0)

    def write_topic_id(self, topic_id: uuid.UUID) -> None:
        """Note in a new directory which topic it belongs to."""
        self.topic_id = topic_id
        path = self.path / PARTITION_METADATA
        self._files.write_all(self._files.open(path, create=True), [render_partition_metadata(topic_id)], 0)
        self._unsynced.note(path, self.path, self.path.parent)

    # -- rolling

    def assign_leader_epoch(self, epoch: int) -> None:
        """This broker leads from the end of the log on."""
        self._check_usable()
        if epoch > self._epochs.latest:
            self._epochs.assign(epoch, self.log_end_offset)

    def roll(self, *, now_ms: int) -> None:
        """Seal the active segment and start a new one at the end of the log; nothing happens if it is empty."""
        self._check_usable()
        if self._active.size_bytes == 0:
            return
        with self.directory.changing("rolling a log"):
            self._active.seal()
            self._snapshot_producers()
            self._start_segment(self.log_end_offset, now_ms=now_ms)

    def roll_to(self, offset: int, *, now_ms: int) -> None:
        """Start a segment at `offset`, beyond the end of the log: what a leader sent lies too far from the base of the active one."""
        self.roll(now_ms=now_ms)
        with self.directory.changing("rolling a log"):
            # First the new one: if there is no descriptor for it, nothing has changed. The empty one would only say where the log goes on.
            self._start_segment(offset, now_ms=now_ms)
            empty, active = self._segments.remove_above(self.log_end_offset - 1)
            self._segments.add(active)
            empty.unlink()
        self.log_start_offset = max(self.log_start_offset, self._segments.first.base_offset)

    # -- making it durable

    @property
    def is_flush_required(self) -> bool:
        """Whether `flush.messages` wants a sync before anything above `durable_end` is acknowledged."""
        return self.log_end_offset - self.durable_end >= self.config.flush_messages

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether it is time to sync: by count, by `flush.ms`, because a segment was sealed, or because retention waits for it."""
        unflushed = self.log_end_offset - self.durable_end
        if self._is_flush_wanted:
            return True
        if unflushed == 0:
            return False
        is_late = now_ms - self.last_flush_ms >= self.config.flush_ms
        return is_late or unflushed >= self.config.flush_messages or self._active.base_offset > self.durable_end

    def begin_flush(self) -> Flush | None:
        """What has to be synced so that everything written by now is durable; None if nothing is, or a flush is under way."""
        if self._flush is not None or self._is_closed or self.directory.offline is not None:
            return None
        if self.log_end_offset == self.durable_end and not self._is_flush_wanted:
            return None
        with self.directory.guarded("flushing a log"):
            self._flush = self._collect_flush()
        return self._flush

    def flush_recovered(self) -> None:
        """Where acknowledged means on disk, sync what recovery found before anybody is shown it (or told it is not there)."""
        if self.is_flush_required and (flush := self.begin_flush()) is not None:
            self._finish(flush)

    def complete_flush(self, flush: Flush, *, now_ms: int) -> None:
        """The flush has run: everything below its end is durable."""
        if flush is self._flush:
            self._flush = None
            self._is_flush_wanted = False
            self.durable_end = max(self.durable_end, flush.end_offset)
            self.last_flush_ms = now_ms

    def fail_flush(self, flush: Flush, error: OSError) -> None:
        """The flush failed. It is not tried again: the directory goes offline. If the log was deleted meanwhile, no harm is done."""
        if flush is self._flush:
            self._flush = None
            self.directory.fail("fsync", error)
            # It is still online if only descriptors were missing: then the next flush has to do what this one did not.
            self._unsynced.paths.update(flush.paths)
            self._unsynced.directories.update(flush.directories)
            self._epochs.is_dirty |= bool(flush.replacements)

    def begin_close(self) -> Flush | None:
        """Complete the indexes and leave a producer snapshot; what has to be synced then, None if nothing has changed.

        `Flush.run` may be called in a thread, so that many logs are synced at once; then comes `abandon`. A flush under way is waited for.
        """
        if self._is_closed or self.directory.offline is not None:
            return None
        if self._flush is not None:
            self._finish(self._flush)
        has_records_to_close = self._closed_end != self.log_end_offset
        if not (has_records_to_close or self._epochs.is_dirty or self._unsynced.directories):
            return None
        with self.directory.guarded("closing a log"):
            if has_records_to_close:
                self._active.write_indexes()
                self._snapshot_producers()
            return self._collect_flush(is_closing=True)

    def close(self) -> None:
        """Make everything durable and let go of the files; a log that did not change is left as it is."""
        flush = self.begin_close()
        if flush is not None:
            try:
                flush.run()
            except OSError as error:
                raise self.directory.fail("closing a log", error) from error
        self.abandon(is_durable=self.directory.offline is None)

    def abandon(self, *, is_durable: bool = False) -> None:
        """Let go of the files as they are; the log can no longer be used."""
        self._is_closed = True
        self.takes_runs = False
        self._cleaning = None
        if is_durable:
            self.durable_end = self.log_end_offset
        self._flush = None
        self.release()

    def release(self) -> None:
        """Close the files until they are needed again."""
        for segment in self._segments:
            segment.release()

    def release_sealed(self) -> None:
        """Close the files of all segments but the active one's .log: readers that went by do not come back soon."""
        for segment in self._segments:
            if segment is not self._active:
                segment.release()
        self._active.close_indexes()

    def close_idle(self) -> None:
        """Close the files that only readers need, and leave everything else alone. May be called in any thread."""
        for segment in self._segments:
            if segment is self._active:
                segment.close_indexes()
            else:
                segment.close_files()

    def _finish(self, flush: Flush) -> None:
        with self.directory.guarded("fsync"):
            flush.run()
        self.complete_flush(flush, now_ms=self.last_flush_ms)

    # -- making it shorter

    def delete_records_before(self, offset: int) -> int:
        """Move the start of the log up to `offset`; the new start. Segments before it go when retention is applied."""
        self._check_usable()
        if offset > self.log_end_offset or offset < 0:
            raise OffsetOutOfRange(f"records before {offset} cannot be deleted: the log ends at {self.log_end_offset}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._epochs.truncate_from_start(offset)
        return self.log_start_offset

    def apply_retention(self, now_ms: int, *, high_watermark: int) -> list[Path]:
        """Drop segments that are too old, too many or before the start; the renamed files, to be unlinked later.

        Nothing is dropped before the segment that is the first then is on the disk: a power cut could leave neither, and the log would
        begin at 0 again. A flush is asked for, and the next call drops them.
        """
        self._check_usable()
        with self.directory.guarded("deleting old segments"):
            facts = self._segments.facts(log_end_offset=self.log_end_offset)
            bounds = RetentionBounds(now_ms, self.log_start_offset, high_watermark, self.size_bytes)
            count = count_to_delete(facts, self.config, bounds)
            if count == len(self._segments):
                self.roll(now_ms=now_ms)
            if count and not self._is_on_disk(self._segments[count]):
                self._is_flush_wanted = True
                return []
            return self._drop_first(count)

    def truncate_to(self, offset: int) -> None:
        """Drop everything from `offset` on; a batch that holds it goes as a whole, and the log ends before it."""
        self._check_usable()
        if offset >= self.log_end_offset:
            return
        if offset < self._segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        self._forget_before_truncation(offset)
        with self.directory.guarded("truncating a log"):
            for segment in reversed(self._segments.remove_above(offset)):
                segment.unlink()
            self._active = self._segments.active
            self._active.update_config(self.config)
            self._active.truncate_to(offset)
            self._sync_cut()
            end = end_of(self._files, self._active)
            assert end is not None, "a segment that was cut at a batch boundary ends there"
            self._end_at(end)
            self._producers = self._snapshots.load(self._segments, end=end)

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int = NO_TIME) -> None:
        """Drop everything and go on at `offset`."""
        self._check_usable()
        self._forget_before_truncation(min(offset, self._segments.first.base_offset))
        with self.directory.guarded("truncating a log"):
            for segment in reversed(self._segments.remove_above(-1)):
                segment.unlink()
            self._end_at(-1)
            self._start_segment(offset, now_ms=now_ms)
            self._sync_cut()
        self._epochs.clear()
        self._producers.clear()
        self.log_start_offset = self.log_end_offset = self.durable_end = offset

    def expire_producers(self, *, older_than_ms: int) -> int:
        """Forget the producers that wrote nothing since; how many that were."""
        return self._producers.expire(older_than_ms=older_than_ms)

    # -- inside

    def _check_usable(self) -> None:
        if self._is_closed or self.directory.offline is not None:
            raise self._unusable()

    def _unusable(self) -> StorageError:
        return StorageError(self.directory.offline or f"the log of {self.topic}-{self.partition} is closed")

    def _age_of_active(self, now_ms: int, timestamp: int) -> int:
        """Time since the first batch, as the batches tell it; since the segment was made, if they tell none."""
        try:
            first = self._active.first_timestamp
        except OSError as error:
            raise self.directory.fail("reading a log", error) from error
        return timestamp - first if first >= 0 else now_ms - self._active.created_ms

    def _is_on_disk(self, segment: Segment) -> bool:
        """Whether a start after a power cut would find the segment."""
        has_durable_records = segment.base_offset < self.durable_end
        return has_durable_records or (self.path not in self._unsynced.directories and self._flush is None)

    def _start_segment(self, base_offset: int, *, now_ms: int) -> None:
        self._active = Segment.create(self._files, self.path, base_offset, config=self.config, created_ms=now_ms)
        self._segments.add(self._active)
        self._unsynced.directories.add(self.path)
        self.update_config(self.config)

    def _snapshot_producers(self) -> None:
        self._snapshots.write(self.log_end_offset, self._producers, segments=self._segments)
        self._unsynced.directories.add(self.path)

    def _collect_flush(self, *, is_closing: bool = False) -> Flush:
        handles: list[FileHandle] = []
        # From the last durable record on: a segment that was sealed right behind it still has indexes that are not.
        for segment in self._segments.from_offset(self.durable_end - 1):
            handles.append(segment.handle())
            if segment.size_bytes and (is_closing or segment is not self._active):
                segment.write_indexes()
                handles += (segment.offset_index.handle(), segment.time_index.handle())
        self._unsynced.paths |= set(self._snapshots.take_unsynced())
        handles += self._unsynced.open_paths(self._files)
        replacements = []
        if self._epochs.is_dirty:
            replacements.append((self.path / leader_epochs.FILE_NAME, self._epochs.render()))
            self._epochs.is_dirty = False
        paths, directories = self._unsynced.take()
        return Flush(self._files, self.log_end_offset, handles, replacements, directories, paths)

    def _drop_first(self, count: int) -> list[Path]:
        if count == 0:
            return []
        dropped = self._segments.remove_first(count)
        marked = [path for segment in dropped for path in segment.mark_deleted()]
        first = self._segments.first.base_offset
        self._snapshots.remove_below(first)
        self.log_start_offset = max(self.log_start_offset, first)
        self.durable_end = max(self.durable_end, first)
        self._epochs.truncate_from_start(self.log_start_offset)
        return marked

    def _forget_before_truncation(self, offset: int) -> None:
        self.directory.lower_recovery_point(self.topic_partition, offset)
        self.directory.lower_cleaned_offset(self.topic_partition, offset)

    def _sync_cut(self) -> None:
        """Before anything else is written: or else a crash could put what was cut off behind what was written instead."""
        self._files.fsync(self._active.handle())
        self._files.fsync_directory(self.path)

    def _end_at(self, end: int) -> None:
        """The log was cut: nothing that is remembered may lie at or behind `end`."""
        self._snapshots.remove_above(end)
        self._epochs.truncate_from_end(end)
        self._closed_end = -1
        self._cleaning = None
        if self._flush is not None:
            self._flush.end_offset = min(self._flush.end_offset, end)
        self._unsynced.directories.add(self.path)
        self.log_end_offset = end
        self.log_start_offset = min(self.log_start_offset, end)
        self.durable_end = min(self.durable_end, end)
