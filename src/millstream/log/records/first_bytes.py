"""What the first bytes of the records tell without decompressing or walking them: are they what the header says?

This is looked at for every batch, so it costs well below a microsecond. It finds what a broken producer sends in practice: another
codec than it says, bytes that are no records at all, a count that cannot be. It does not find damage further inside: a compressed block
that breaks off in the middle, a second record whose sizes do not add up. `check.records` does (docs/adr/0021).

    gzip     1f 8b 08
    snappy   xerial's magic, or of a raw block its size without compression (a varint), and a literal: nothing can be copied yet
    lz4      04 22 4d 18
    zstd     28 b5 2f fd
    none     the size of the first record, which has to fit; of a single one, exactly
"""

from typing import Final

from millstream.buffer import Buffer
from millstream.errors import InvalidRecord
from millstream.wire.batch import CODEC_MASK, HEADER_SIZE, BatchHeader

_SMALLEST_RECORD: Final = 7
_MAGICS: Final = (b"", b"\x1f\x8b\x08", b"\x82SNAPPY\x00", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd")
_ENDS: Final = tuple(HEADER_SIZE + len(magic) for magic in _MAGICS)
_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_SNAPPY: Final = 2
_MOST_SNAPPY_UNFOLDS: Final = 64
"""A copy of 64 bytes takes three."""
_SNAPPY_SLACK: Final = 32
"""Beside a sixth, by so much a block may be larger than what is in it."""
_MAX_SIZE_BYTES: Final = 5


def check_first_bytes(batch: Buffer, header: BatchHeader, *, size_bytes: int) -> None:
    """Raise `InvalidRecord` if the records cannot be what the header of their batch, of so many bytes, says."""
    codec = header.attributes & CODEC_MASK
    if codec:
        if batch[HEADER_SIZE : _ENDS[codec]] != _MAGICS[codec] and not (codec == _SNAPPY and _is_raw_snappy(batch, header.record_count)):
            raise InvalidRecord(f"the batch says that its records are compressed by {_NAMES[codec]}, and they are not")
        return
    count = header.record_count
    left = size_bytes - HEADER_SIZE - count * _SMALLEST_RECORD
    if left < 0:
        raise InvalidRecord(f"the batch claims {count} records, for which {-left} bytes are missing")
    size, start = batch[HEADER_SIZE], HEADER_SIZE + 1
    if size >= 0x80:
        more = batch[start]
        size, start = (size + ((more - 1) << 7), start + 1) if more < 0x80 else _size_at(batch)
    left = size_bytes - start - (size >> 1)
    if (left and (left < 0 or count == 1)) or size & 1:
        raise InvalidRecord("the first record of the batch does not fit into it")


def _is_raw_snappy(batch: Buffer, record_count: int) -> bool:
    size, start = _size_at(batch)
    packed = len(batch) - start
    is_possible = record_count * _SMALLEST_RECORD <= size <= _MOST_SNAPPY_UNFOLDS * packed and packed <= size + size // 6 + _SNAPPY_SLACK
    return is_possible and batch[start] & 3 == 0


def _size_at(batch: Buffer) -> tuple[int, int]:
    """The varint at the start of the records, as it stands, and the position after it; one that does not end is too large for anything."""
    size = shift = 0
    for position in range(HEADER_SIZE, min(HEADER_SIZE + _MAX_SIZE_BYTES, len(batch))):
        byte = batch[position]
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, position + 1
        shift += 7
    return 1 << 64, len(batch)
