"""Compaction of one log: two passes over its files, which stay as they are; what comes out are `.cleaned` files.

    first pass    the dirty part is read, the latest offset of each key is learned, as far as memory goes
    second pass   clean and dirty segments are read again, in groups that fit into one segment; what must stay is written to
                  `<base offset>.log.cleaned` with its indexes, synced, and reported. The broker swaps it in. Which records of the
                  dirty part stay is known from the first pass: the others are not looked at again.

Groups are reported oldest first, and have to be swapped in that order: a tombstone may only go when the older values of its key are gone.
A batch whose inside cannot be read is its producer's own making, or rotten: it is kept as it is, none of its keys count, and it is
reported. Only where it is not known any more where a batch ends does compaction of the log give up.

It runs in a process of its own (`cleaner_process`) and knows nothing of the broker. It is slowed down by `spend`, which is called with all
bytes that were read and written.
"""

import time
from collections.abc import Callable, Iterator

from millstream.errors import CorruptMessage, KafkaError
from millstream.files import Files
from millstream.log.compaction.batch_cleaning import CleanedBatch, CleaningRules, clean_batch, keys_of
from millstream.log.compaction.cleaning_order import CleanedGroup, CleaningOrder, CleaningResult
from millstream.log.compaction.cleaning_rules import GroupedSegment, group_segments
from millstream.log.compaction.latest_offsets import LatestOffsets
from millstream.log.compaction.ordered_aborted import OrderedAborted
from millstream.log.compaction.swap import CleanedSegment
from millstream.log.config import LogConfig
from millstream.log.offset_index import ENTRY as OFFSET_ENTRY
from millstream.log.recovery import batches
from millstream.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, Segment
from millstream.log.sparse_index import whole_entries
from millstream.log.time_index import ENTRY as TIME_ENTRY
from millstream.log.transactions.cleaned_transactions import CleanedTransactions
from millstream.wire.batch import BatchHeader

MAX_REPORTED = 5
_SPENT_AT_ONCE = 256 << 10


class Cleaner:
    """Carries out one order."""

    def __init__(self, files: Files, order: CleaningOrder, *, spend: Callable[[int], None] = lambda _bytes: None) -> None:
        self._files = files
        self._order = order
        self._spend = spend
        self._unspent = 0
        self._result = CleaningResult(order.first_dirty_offset)
        self._aborted = OrderedAborted(files, order)
        self._config = LogConfig(
            segment_bytes=order.segment_bytes,
            segment_index_bytes=order.segment_index_bytes,
            index_interval_bytes=order.index_interval_bytes,
        )

    def run(self) -> Iterator[CleanedGroup | CleaningResult]:
        """Each group as it is ready, the result last; CorruptMessage where no batch can be found, OSError of the disk."""
        started = time.monotonic()
        order, result = self._order, self._result
        latest = self._learn()
        result.key_count = len(latest)
        result.end_offset = latest.latest_offset + 1
        rules = CleaningRules(
            latest.by_key,
            latest.latest_offset,
            order.now_ms,
            order.delete_retention_ms,
            last_offsets={producer_id: last_offset for producer_id, last_offset, _ in order.producers if last_offset >= 0},
            marker_epochs={producer_id: epoch for producer_id, last_offset, epoch in order.producers if last_offset < 0},
            first_dirty_offset=order.first_dirty_offset,
            latest_in=latest.latest_in,
            has_tombstones=latest.has_tombstones,
        )
        transactions = CleanedTransactions()
        touched = [segment for segment in self._grouped() if segment.base_offset < result.end_offset]
        for group in group_segments(touched, max_bytes=order.segment_bytes, max_index_bytes=order.segment_index_bytes):
            cleaned = self._clean_group(group, rules, transactions)
            if cleaned is not None:
                yield cleaned
        result.seconds = round(time.monotonic() - started, 3)
        yield result

    # -- first pass

    def _learn(self) -> LatestOffsets:
        order = self._order
        latest = LatestOffsets(first_dirty_offset=order.first_dirty_offset, max_bytes=order.dedupe_buffer_bytes)
        transactions = CleanedTransactions()
        for base_offset, end, size in order.bounded_segments():
            if end > order.first_dirty_offset:
                transactions.expect(self._aborted.search(max(base_offset, order.first_dirty_offset), end))
                if not self._learn_segment(self._segment(base_offset, size), latest, transactions):
                    break
            # Offsets that no record has up to the next segment are seen as well.
            latest.reach(end - 1)
        latest.complete()
        return latest

    def _learn_segment(self, segment: Segment, latest: LatestOffsets, transactions: CleanedTransactions) -> bool:
        """Learn the keys of a segment; False when there is no room for more. Those of aborted transactions do not count."""
        first = self._order.first_dirty_offset
        for header, batch, _ in self._batches(segment, position=segment.find(max(first, segment.base_offset))):
            if header.is_control:
                transactions.end(header, batch)
                latest.reach(header.last_offset)
            elif transactions.is_aborted(header):
                latest.leave_out(header)
            else:
                try:
                    keys = keys_of(header, batch)
                except KafkaError:
                    # None of its keys count, so that nothing readable goes for its sake; the second pass reports it.
                    latest.leave_out(header)
                    continue
                if not latest.add(header, keys):
                    return False
        return True

    # -- second pass

    def _clean_group(self, group: list[GroupedSegment], rules: CleaningRules, transactions: CleanedTransactions) -> CleanedGroup | None:
        """Write what is left of the group; None if that is what was there before."""
        size_before = sum(one.size_bytes for one in group)
        if size_before == 0:
            return None
        cleaned = CleanedSegment.create(
            self._files, self._order.path, group[0].base_offset, config=self._config, created_ms=self._order.now_ms
        )
        filled = [one for one in group if one.size_bytes]
        is_changed = len(group) > 1
        if any(self._aborted.has_file(one.base_offset) for one in group):
            cleaned.begin_aborted_index()
        for one in filled:
            segment = self._segment(one.base_offset, one.size_bytes)
            transactions.expect(self._aborted.search(one.base_offset, one.end_offset))
            modified_ms = self._files.status(segment.path()).modified_ms
            is_changed |= self._clean_segment(segment, cleaned, rules, transactions, is_last_segment=one is filled[-1])
        cleaned.finish(modified_ms=modified_ms)
        self._files.fsync_directory(self._order.path)
        self._result.bytes_before += size_before
        self._result.bytes_after += cleaned.size_bytes
        if not is_changed:
            cleaned.unlink()
            return None
        return CleanedGroup([one.base_offset for one in group], cleaned.size_bytes)

    def _clean_segment(
        self,
        segment: Segment,
        cleaned: CleanedSegment,
        rules: CleaningRules,
        transactions: CleanedTransactions,
        *,
        is_last_segment: bool,
    ) -> bool:
        """Write what is left of a segment; whether that is anything else than what was there."""
        result = self._result
        is_changed = False
        for header, batch, is_last_batch in self._batches(segment):
            result.records_before += max(0, header.record_count)
            if header.is_control:
                is_discardable, aborted = transactions.end(header, batch)
                if aborted is not None:
                    cleaned.add_aborted(aborted)
            else:
                is_discardable = transactions.is_aborted(header)
            try:
                left = clean_batch(header, batch, rules, is_last=is_last_segment and is_last_batch, is_discardable=is_discardable)
            except KafkaError as error:
                self._report(header, error)
                left = CleanedBatch(batch, max(1, header.record_count), header.max_timestamp)
            is_changed |= left.content is not batch
            if left.content is not None:
                cleaned.add(left.content, last_offset=header.last_offset, max_timestamp=left.max_timestamp)
                result.records_after += left.record_count
                self._account(len(left.content))
        return is_changed

    # -- inside

    def _segment(self, base_offset: int, size: int) -> Segment:
        segment = Segment(self._files, self._order.path, base_offset, config=self._config, created_ms=self._order.now_ms, size_bytes=size)
        segment.handle(read_only=True)
        return segment

    def _grouped(self) -> Iterator[GroupedSegment]:
        order = self._order
        for base_offset, end, size in order.bounded_segments():
            segment = Segment(self._files, order.path, base_offset, config=self._config, created_ms=order.now_ms, size_bytes=size)
            entries = whole_entries(self._files, segment.path(INDEX_SUFFIX), entry=OFFSET_ENTRY)
            times = whole_entries(self._files, segment.path(TIME_INDEX_SUFFIX), entry=TIME_ENTRY)
            yield GroupedSegment(base_offset, end, size, max(0, entries) * OFFSET_ENTRY.size, max(0, times) * TIME_ENTRY.size)

    def _batches(self, segment: Segment, *, position: int = 0) -> Iterator[tuple[BatchHeader, memoryview, bool]]:
        """Header and bytes of each batch, and whether it is the last one."""
        end = segment.size_bytes
        for start, header, batch in batches(self._files, segment, position=position, chunk_bytes=self._order.io_buffer_bytes):
            position = start + len(batch)
            self._result.bytes_read += len(batch)
            self._account(len(batch))
            yield header, batch, position == end
        if position != end:
            raise CorruptMessage(f"{segment.path()} is damaged: no batch at position {position}")

    def _account(self, size: int) -> None:
        self._unspent += size
        if self._unspent >= _SPENT_AT_ONCE:
            self._spend(self._unspent)
            self._unspent = 0

    def _report(self, header: BatchHeader, error: KafkaError) -> None:
        self._result.broken_count += 1
        if len(self._result.broken) < MAX_REPORTED:
            self._result.broken.append(f"offset {header.base_offset}: {error}")
