"""Compaction of a log in a test: the cleaner in the same process, its groups swapped in at once."""

from collections.abc import Iterable

from millstream.files import Files
from millstream.log.compaction.cleaner import Cleaner
from millstream.log.compaction.cleaning import Cleaning, cleaning_extent
from millstream.log.compaction.cleaning_order import CleanedGroup, CleaningResult
from millstream.log.compaction.cleaning_rules import CleaningExtent
from millstream.log.log import Log
from millstream.wire.batch import split_batches
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, decode_records, encode_batch
from tests.unit.log.conftest import NOW_MS
from tests.unit.log.partition import flush, read_bytes

ROOMY = 1 << 20


def write(
    log: Log, *pairs: tuple[bytes | None, bytes | None], codec: Codec = Codec.NONE, timestamp: int = NOW_MS, sequence: int = -1
) -> int:
    """Append one batch of keys and values; its base offset. With a sequence it is one of producer 7."""
    records = [Record(number, timestamp, key, value) for number, (key, value) in enumerate(pairs)]
    producer = ProducerStamp(7, 0, sequence) if sequence >= 0 else ProducerStamp()
    batch = encode_batch(records, codec=codec, producer=producer)
    return log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS).base_offset


def compact(
    log: Log,
    *,
    now_ms: int = NOW_MS,
    high_watermark: int | None = None,
    memory: int = ROOMY,
    files: Files | None = None,
    is_flushed_first: bool = True,
) -> CleaningResult:
    """Compact what may be compacted, whether it is due or not, and write the checkpoint."""
    files = files or Files()
    extent = extent_of(log, now_ms=now_ms, high_watermark=high_watermark, is_flushed_first=is_flushed_first)
    cleaning = Cleaning(log, extent, now_ms=now_ms, dedupe_buffer_bytes=memory, io_buffer_bytes=1000)
    for answer in Cleaner(files, cleaning.order).run():
        if isinstance(answer, CleanedGroup):
            marked = cleaning.swap_in(answer, now_ms=now_ms)
            files.fsync_directory(log.path)
            for path in marked:
                files.unlink(path)
        else:
            assert cleaning.complete(answer.end_offset)
            log.directory.write_cleaned_offsets()
            return answer
    raise AssertionError("a cleaner ends with a result")


def extent_of(log: Log, *, now_ms: int = NOW_MS, high_watermark: int | None = None, is_flushed_first: bool = True) -> CleaningExtent:
    """What could be compacted once everything is on the disk."""
    if is_flushed_first and log.log_end_offset > log.durable_end:
        flush(log)
    return cleaning_extent(log, now_ms, high_watermark=log.log_end_offset if high_watermark is None else high_watermark)


def stored_batches(log: Log) -> Iterable[bytes]:
    """Every batch of the log, whole."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = [bytes(batch) for _, batch in split_batches(read_bytes(log, offset))]
        if not found:
            return
        yield from found
        offset = int.from_bytes(found[-1][:8]) + int.from_bytes(found[-1][23:27]) + 1


def records_of(log: Log) -> list[Record]:
    """Every record, as a consumer that goes through the log gets them."""
    return [record for batch in stored_batches(log) for record in decode_records(batch) if record.offset >= log.log_start_offset]


def pairs(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record."""
    return [(record.offset, record.key, record.value) for record in records_of(log)]
