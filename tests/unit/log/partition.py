"""Short ways to write to a log and to read it back."""

from millstream.files import Files
from millstream.log.log import AppendResult, Log
from millstream.log.records.timestamp_search import LargestTimestampSearch, OffsetSearch, TimestampedOffset, TimestampSearch
from tests.batches import Record, decode_records, encode_batch
from tests.unit.log.conftest import NOW_MS


def append(log: Log, *values: bytes, epoch: int = 0, timestamp: int = NOW_MS, now_ms: int = NOW_MS, **fields: int) -> AppendResult:
    """Write one batch with these values."""
    return log.append_as_leader(encode_batch(list(values), keys=None, timestamp=timestamp, **fields), leader_epoch=epoch, now_ms=now_ms)


def append_many(log: Log, count: int, *, size: int = 100) -> None:
    """Write `count` batches of one record each, whose value is its offset."""
    for _ in range(count):
        append(log, str(log.log_end_offset).encode().ljust(size, b"."))


def read_bytes(log: Log, offset: int, *, max_bytes: int = 1 << 30, limit: int | None = None) -> bytes:
    """What a fetch at the offset would send."""
    region = log.read(offset, max_bytes=max_bytes, limit_offset=log.log_end_offset if limit is None else limit)
    return b"" if region is None else Files().pread(region.handle, region.length, region.position)


def read_all(log: Log) -> list[Record]:
    """Every record of the log, as a consumer that goes through it would get them."""
    records: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = [record for record in decode_records(read_bytes(log, offset)) if record.offset >= offset]
        if not found:
            break
        records += found
        offset = found[-1].offset + 1
    return records


def values(log: Log) -> list[bytes]:
    """The values of all records."""
    return [record.value or b"" for record in read_all(log)]


def flush(log: Log) -> None:
    """Make everything durable."""
    running = log.begin_flush()
    assert running is not None
    running.run()
    log.complete_flush(running, now_ms=NOW_MS)


def offset_for_timestamp(log: Log, timestamp: int) -> TimestampedOffset | None:
    """The first record at or after the time, searched for without a pause."""
    return finished(log, TimestampSearch(timestamp, from_offset=log.log_start_offset, limit_offset=log.log_end_offset))


def offset_of_max_timestamp(log: Log) -> TimestampedOffset | None:
    """The record with the largest time, searched for without a pause."""
    return finished(log, LargestTimestampSearch(from_offset=log.log_start_offset))


def finished(log: Log, search: OffsetSearch, *, units: int = 1 << 30) -> TimestampedOffset | None:
    """What a search finds that may do so much at a time."""
    while not search.is_done:
        if search.batch is None:
            log.advance_search(search, units)
        else:
            search.look_into(search.batch.load())
    return search.found
