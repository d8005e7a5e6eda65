"""From a partition's directory to what a `Log` keeps in memory.

After a clean stop the files are trusted: names and sizes are read, the last few batches are walked to find the end, one producer snapshot
is read; sealed segments stay closed. After a crash the segment that holds the last record before the recovery point and all after it go
through `recovery`; at the first damage the log ends, and later segments are removed. Earlier segments were synced, with their indexes,
before the recovery point passed them; an index that is missing or makes no sense is rebuilt.

Between two segments that are recovered no offset may be missing (a file that lost its tail at a batch boundary looks intact), except
where the log was compacted: Kafka's compaction leaves holes there. Ours leaves them only inside segments, where they are always fine.

A swap of compacted segments that was interrupted is finished first (`swap`). Leftovers go: `.deleted` (retention was about to unlink it),
`.cleaned` and `.tmp` (never finished), indexes without a segment.
"""

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from millstream.errors import CorruptMessage
from millstream.files import Files
from millstream.log import leader_epochs, offset_index, producer_snapshots, time_index
from millstream.log.compaction.swap import finish_swaps
from millstream.log.config import LogConfig
from millstream.log.directories.directory import LogDirectory
from millstream.log.leader_epochs import LeaderEpochs
from millstream.log.local_log import LocalLog
from millstream.log.producer_snapshots import ProducerSnapshots
from millstream.log.producer_state import ProducerState
from millstream.log.recovery import end_of, rebuild_indexes, recover_segment, replay_epochs
from millstream.log.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
)
from millstream.log.segments import Segments
from millstream.log.sparse_index import whole_entries

LEFTOVER_SUFFIXES = (DELETED_SUFFIX, ".tmp")
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LoadedLog:
    """The state of a log as its files have it."""

    local: LocalLog
    producers: ProducerState
    log_start_offset: int
    log_end_offset: int


@dataclass(slots=True, frozen=True)
class LoadOrder:
    """What is known about a log before its files are looked at."""

    config: LogConfig
    now_ms: int
    is_clean: bool = True
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_offset: int = 0
    """How far compaction came."""


def load_log(directory: LogDirectory, path: Path, order: LoadOrder) -> LoadedLog:
    """Read, and after a crash repair, the log in `path`; an empty directory becomes an empty log."""
    files = directory.files
    finish_swaps(files, path, config=order.config)
    names = _without_leftovers(files, path)
    segments, snapshots = _collect(files, path, names, order)
    epochs = _load_epochs(files, path, list(segments) if order.is_clean else _before(segments, order.recovery_point))
    log_start_offset = max(order.log_start_offset, segments.first.base_offset)
    log_end_offset = end_of(files, segments.active) if order.is_clean else None
    if log_end_offset is not None:
        durable_end = log_end_offset
        producers = snapshots.load(segments, end=log_end_offset)
    else:
        producers, log_end_offset = _recover(files, segments, snapshots, order=order, epochs=epochs)
        durable_end = min(order.recovery_point, log_end_offset)
    if log_end_offset < log_start_offset:
        # Deleted records were lost in a crash before they were synced: their offsets must not be given away again.
        _remove(files, segments.remove_above(-1))
        segments.add(Segment.create(files, path, log_start_offset, config=order.config, created_ms=order.now_ms))
        log_end_offset = durable_end = log_start_offset
    epochs.truncate_from_end(log_end_offset)
    epochs.truncate_from_start(log_start_offset)
    snapshots.remove_strays(segments, end=log_end_offset)
    if order.is_clean:
        segments.active.release()
    closed_end = log_end_offset if order.is_clean else -1
    local = LocalLog(directory, path, segments, snapshots, epochs, durable_end, closed_end, order.now_ms)
    return LoadedLog(local, producers, log_start_offset, log_end_offset)


def _without_leftovers(files: Files, directory: Path) -> list[str]:
    names = files.list_directory(directory)
    kept = [name for name in names if not name.endswith(LEFTOVER_SUFFIXES)]
    for name in set(names) - set(kept):
        files.unlink(directory / name)
    return kept


def _collect(files: Files, directory: Path, names: list[str], order: LoadOrder) -> tuple[Segments, ProducerSnapshots]:
    """The segments with working indexes, and the producer snapshots."""
    present = set(names)
    segments = Segments()
    snapshot_offsets = []
    with_aborted: set[int] = set()
    for name in names:
        stem, dot, suffix = name.partition(".")
        if len(stem) != 20 or not stem.isdigit():
            continue
        if dot + suffix == producer_snapshots.SUFFIX:
            snapshot_offsets.append(int(stem))
        elif dot + suffix == LOG_SUFFIX:
            size = files.status(directory / name).size_bytes
            segments.add(Segment(files, directory, int(stem), config=order.config, created_ms=order.now_ms, size_bytes=size))
        elif dot + suffix in SEGMENT_SUFFIXES and stem + LOG_SUFFIX not in present:
            files.unlink(directory / name)
        elif dot + suffix == TRANSACTION_INDEX_SUFFIX:
            with_aborted.add(int(stem))
    for segment in segments:
        segment.has_aborted = segment.base_offset in with_aborted
    if not len(segments):
        segments.add(Segment.create(files, directory, order.log_start_offset, config=order.config, created_ms=order.now_ms))
    snapshots = ProducerSnapshots(files, directory, snapshot_offsets)
    trusted = list(segments) if order.is_clean else _before(segments, order.recovery_point)
    for segment in trusted:
        if not _has_sound_indexes(files, segment, present, order):
            _logger.warning("the indexes of %s are missing or damaged and are rebuilt", segment.path())
            rebuild_indexes(files, segment, partial(snapshots.load, segments, end=segment.base_offset))
    return segments, snapshots


def _before(segments: Segments, offset: int) -> list[Segment]:
    """The segments whose indexes were synced before the recovery point came there: those that end before it, and never the last."""
    return list(segments)[: max(0, segments.number_holding(offset - 1))]


def _has_sound_indexes(files: Files, segment: Segment, present: set[str], order: LoadOrder) -> bool:
    if segment.size_bytes == 0:
        return True
    if segment.has_aborted and not _has_sound_aborted(files, segment):
        return False
    if not {segment.path(INDEX_SUFFIX).name, segment.path(TIME_INDEX_SUFFIX).name} <= present:
        return False
    if order.is_clean:
        # Sizes only: reading two files per sealed segment would make the start slow where nothing can have gone wrong.
        return _is_long_enough(files, segment, order)
    index, times = segment.offset_index, segment.time_index
    last_offset, position = index.entry(len(index) - 1) if len(index) else (1, 0)
    _, time_offset = times.entry(len(times) - 1) if len(times) else (0, 0)
    is_sound = last_offset > 0 and position < segment.size_bytes and times.last_key != 0 and time_offset >= 0
    is_sound = is_sound and _is_long_enough(files, segment, order)
    segment.release()
    return is_sound


def _has_sound_aborted(files: Files, segment: Segment) -> bool:
    """Whether the index of aborted transactions has whole entries that can be those of the segment; it is small, and few have one."""
    from millstream.log.transactions.aborted_index import ENTRY  # most logs have no transactions

    is_whole = whole_entries(files, segment.path(TRANSACTION_INDEX_SUFFIX), entry=ENTRY) >= 0
    is_sound = is_whole and segment.aborted_index.is_sound(base_offset=segment.base_offset)
    segment.release()
    return is_sound


def _is_long_enough(files: Files, segment: Segment, order: LoadOrder) -> bool:
    """Whether the indexes have whole entries, and any at all where there must be some."""
    entries = whole_entries(files, segment.path(INDEX_SUFFIX), entry=offset_index.ENTRY)
    times = whole_entries(files, segment.path(TIME_INDEX_SUFFIX), entry=time_index.ENTRY)
    if entries < 0 or times < 0:
        return False
    try:
        if times == 0 and segment.first_timestamp >= 0:
            return False
        # A batch that starts beyond the first interval has an entry.
        position = 0
        while entries == 0 and position <= order.config.index_interval_bytes and position < segment.size_bytes:
            position = segment.end_of_batch_at(position)
        return entries > 0 or position >= segment.size_bytes
    except CorruptMessage as error:
        _logger.warning("%s", error)
        return True  # Better indexes would not help; readers of these records get an error.
    finally:
        segment.release()


def _load_epochs(files: Files, directory: Path, trusted: list[Segment]) -> LeaderEpochs:
    """From their file, or else from the batches; of what has to be recovered they are learned in any case."""
    path = directory / leader_epochs.FILE_NAME
    try:
        return LeaderEpochs.parse(files.read_bytes(path))
    except FileNotFoundError:
        epochs = LeaderEpochs()
    except ValueError as error:
        _logger.warning("%s is damaged (%s) and is rebuilt from the batches", path, error)
        epochs = LeaderEpochs()
    for segment in trusted:
        replay_epochs(files, segment, epochs)
    return epochs


def _recover(
    files: Files,
    segments: Segments,
    snapshots: ProducerSnapshots,
    *,
    order: LoadOrder,
    epochs: LeaderEpochs,
) -> tuple[ProducerState, int]:
    """Repair the segments from the recovery point on; the producers and the offset after the last record."""
    doubtful = segments.from_offset(order.recovery_point - 1 if not order.is_clean else segments.active.base_offset)
    first = doubtful[0].base_offset
    producers = snapshots.load(segments, end=first)
    # What a checkpoint or snapshot says of the doubtful part may stem from before a truncation: it is learned again.
    epochs.truncate_from_end(first)
    snapshots.remove_above(first)
    end = first
    for number, segment in enumerate(doubtful):
        if number and segment.base_offset != end and (segment.base_offset < end or segment.base_offset > order.cleaned_offset):
            _logger.warning("%s does not go on where the segment before it ends (%d)", segment.path(), end)
            _remove(files, segments.remove_above(doubtful[number - 1].base_offset))
            break
        size = segment.size_bytes
        end = recover_segment(files, segment, epochs=epochs, producers=producers)
        if segment.size_bytes < size:
            _logger.warning("%s was cut from %d to %d bytes: no intact batch at offset %d", segment.path(), size, segment.size_bytes, end)
            _remove(files, segments.remove_above(segment.base_offset))
            break
        if number < len(doubtful) - 1:
            segment.seal()
            segment.release()
    return producers, end


def _remove(files: Files, segments: list[Segment]) -> None:
    for segment in reversed(segments):
        _logger.warning("%s lies behind damage and is removed (%d bytes)", segment.path(), segment.size_bytes)
        segment.unlink()
    if segments:
        files.fsync_directory(segments[0].path().parent)
