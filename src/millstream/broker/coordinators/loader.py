"""Loading a machine: every record of its partition is read once and applied, while the loop goes on serving others.

The log is read in pieces by a thread; decoding and applying happen on the loop in slices of a few milliseconds. What cannot be read (a
batch whose CRC is wrong, a record that makes no sense) is logged and passed over: one rotten record does not take the others of the
partition with it. Records of transactions are applied as such, and so are the markers that end them.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final

from millstream.cluster.partition import Partition
from millstream.coordinator_shard import CoordinatorRecord, CoordinatorShard
from millstream.errors import KafkaError, MalformedFrame, StorageError
from millstream.log.region import FileRegion
from millstream.wire.batch import read_header, split_batches
from millstream.wire.records import decode_key_values

logger = logging.getLogger(__name__)

SLICE_SECONDS: Final = 0.005
RECORDS_PER_LOOK: Final = 128
"""Records between two looks at the clock."""

KeyAndValue = tuple[bytes | None, bytes | None]


async def replay(partition: Partition, shard: CoordinatorShard, *, executor: Executor, chunk_bytes: int) -> int:
    """Apply every record of the partition's log, in order; returns how many there were. StorageError if the disk cannot be read."""
    loop = asyncio.get_running_loop()
    log = partition.log
    offset, end = log.log_start_offset, log.log_end_offset
    count = 0
    slice_ends = loop.time() + SLICE_SECONDS
    while offset < end:
        region = log.read(offset, max_bytes=chunk_bytes, limit_offset=end)
        if region is None:
            break
        try:
            content = await loop.run_in_executor(executor, _read, region)
        except OSError as error:
            raise StorageError(f"cannot read {partition.topic}-{partition.index}: {error.strerror or error}") from error
        before = offset
        for header, batch in split_batches(content):
            offset = max(offset, header.next_offset)
            if header.is_control:
                _apply_marker(shard, header.producer_id, batch)
                continue
            apply = partial(shard.apply_pending, producer_id=header.producer_id) if header.is_transactional else shard.apply
            pairs = _read_batch(partition, batch)
            count += len(pairs)
            for first in range(0, len(pairs), RECORDS_PER_LOOK):
                _apply(partition, apply, pairs[first : first + RECORDS_PER_LOOK], base_offset=header.base_offset)
                if loop.time() > slice_ends:
                    await asyncio.sleep(0)
                    slice_ends = loop.time() + SLICE_SECONDS
        if offset == before:
            raise StorageError(f"{partition.topic}-{partition.index} has no whole batch at offset {offset}")
    return count


def _read_batch(partition: Partition, batch: memoryview) -> list[KeyAndValue]:
    """Keys and values of a batch; none if it cannot be read."""
    try:
        return decode_key_values(batch)
    except KafkaError as error:
        offset = read_header(batch).base_offset
        logger.error("%s-%d: the batch at offset %d is passed over: %s", partition.topic, partition.index, offset, error)
        return []


def _apply_marker(shard: CoordinatorShard, producer_id: int, batch: memoryview) -> None:
    from millstream.log.transactions.marker import read_marker  # most partitions have none

    marker = read_marker(batch)
    if marker is not None:
        shard.end_transaction(producer_id, is_commit=marker.is_commit)


def _apply(partition: Partition, apply: Callable[[CoordinatorRecord], None], pairs: list[KeyAndValue], *, base_offset: int) -> None:
    for key, value in pairs:
        try:
            apply(CoordinatorRecord(key or b"", value))
        except (KafkaError, MalformedFrame) as error:
            where = f"{partition.topic}-{partition.index}"
            logger.error("%s: a record of the batch at offset %d is passed over: %s", where, base_offset, error)


def _read(region: FileRegion) -> bytes:
    """The bytes of a region; runs in a thread."""
    pieces = []
    position, left = region.position, region.length
    while left:
        piece = os.pread(region.handle.fd, left, position)
        if not piece:
            break
        pieces.append(piece)
        position += len(piece)
        left -= len(piece)
    return b"".join(pieces)
