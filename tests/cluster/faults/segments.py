"""The batches in a replica's segment files, as they lie there: what has to be the same on every replica below the high watermark.

Replicas may cut their segments at other places, so batches are compared, not files.
"""

import struct
from pathlib import Path
from zlib import crc32

from tests.cluster.faults.checker import Batch

_HEAD = struct.Struct(">qi")


def batches_of(partition_directory: Path, *, below: int) -> list[Batch]:
    """All whole batches that begin below an offset."""
    batches = []
    for segment in sorted(partition_directory.glob("*.log")):
        data = segment.read_bytes()
        position = 0
        while position + _HEAD.size <= len(data):
            base_offset, length = _HEAD.unpack_from(data, position)
            end = position + _HEAD.size + length
            if base_offset >= below or length <= 0 or end > len(data):
                break
            batches.append(Batch(base_offset, end - position, crc32(data[position:end])))
            position = end
    return batches
