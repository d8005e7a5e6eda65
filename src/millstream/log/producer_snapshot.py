"""`<offset>.snapshot`: the producers as they were when the log ended at that offset.

    2  version, 1
    4  CRC-32C of everything from byte 6 on
    4  number of producers
   46  per producer: 8 id, 2 epoch, 4 last sequence, 8 last offset, 4 offset delta of the last batch, 8 timestamp,
       4 coordinator epoch, 8 first offset of the open transaction or -1

Only the last batch of a producer is stored, as in Kafka: after a restart an older one of the five counts as out of turn.
One is written when the log rolls (named after the new segment) and at a clean close. They need no sync of their own to be safe: a damaged
one fails its CRC and an older one is taken instead.
"""

import logging
from pathlib import Path
from struct import Struct

from millstream.files import Files
from millstream.log.producer_state import MAX_SEQUENCE, ProducerEntry, ProducerState, WrittenBatch
from millstream.wire.crc32c import crc32c

SUFFIX = ".snapshot"
VERSION = 1

_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_logger = logging.getLogger(__name__)


def snapshot_path(directory: Path, offset: int) -> Path:
    """Where the snapshot of this offset is."""
    return directory / f"{offset:020d}{SUFFIX}"


def render(producers: ProducerState) -> bytes:
    """The content of a snapshot file."""
    body = bytearray(_COUNT.pack(len(producers)))
    for entry in producers:
        last = entry.batches[-1] if entry.batches else None
        body += _ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            last.last_offset - last.base_offset if last else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
    return _HEAD.pack(VERSION, crc32c(body)) + body


def parse(content: bytes) -> ProducerState:
    """The producers in a snapshot; ValueError if it is damaged."""
    start = _HEAD.size + _COUNT.size
    if len(content) < start:
        raise ValueError(f"only {len(content)} bytes")
    version, crc = _HEAD.unpack_from(content)
    (count,) = _COUNT.unpack_from(content, _HEAD.size)
    if version != VERSION or crc != crc32c(content[_HEAD.size :]) or len(content) != start + count * _ENTRY.size:
        raise ValueError(f"version {version}, {count} producers in {len(content)} bytes: wrong CRC or size")
    producers = ProducerState()
    for fields in _ENTRY.iter_unpack(content[start:]):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first_offset = fields
        entry = ProducerEntry(producer_id, epoch, last_timestamp=timestamp)
        entry.coordinator_epoch = coordinator_epoch
        entry.transaction_first_offset = first_offset
        if last_offset >= 0:
            base_sequence = (last_sequence - offset_delta) & MAX_SEQUENCE
            entry.batches.append(WrittenBatch(base_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp))
        producers.restore(entry)
    return producers


def write_snapshot(files: Files, directory: Path, offset: int, *, producers: ProducerState) -> Path:
    """Write the snapshot of `offset` and return its path; syncing it is the caller's."""
    path = snapshot_path(directory, offset)
    handle = files.open(path, create=True)
    content = render(producers)
    files.write_all(handle, [content], 0)
    files.truncate(handle, len(content))
    return path


def load_latest(files: Files, directory: Path, offsets: list[int], *, at_most: int) -> tuple[int, ProducerState] | None:
    """The newest intact snapshot that is not beyond `at_most`, with its offset; damaged ones are removed."""
    for offset in sorted((offset for offset in offsets if offset <= at_most), reverse=True):
        path = snapshot_path(directory, offset)
        try:
            return offset, parse(files.read_bytes(path))
        except FileNotFoundError:
            continue
        except ValueError as error:
            _logger.warning("%s is damaged (%s) and was removed", path, error)
            files.unlink(path)
    return None
