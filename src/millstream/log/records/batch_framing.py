"""Whether the bytes that a producer sent for a partition are exactly one record batch of format 2, and if not, Kafka's word for it.

Kafka walks over the batches before it looks into the first one. What does not hold a whole batch holds none, and so breaks the rule of one
batch per request (INVALID_RECORD); what cannot be walked over is CORRUPT_MESSAGE. Only bytes that are wrong come here: the good case is one
comparison in `batch_check`. In one thing we are stricter: bytes behind the batch that are no batch Kafka cuts off, here they are refused.
"""

import struct
from typing import Final

from millstream.buffer import Buffer
from millstream.errors import CorruptMessage, InvalidRecord, KafkaError
from millstream.wire.batch import LENGTH_OVERHEAD, MAGIC

_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_SMALLEST_LENGTH: Final = 14
"""That of a message of the oldest format, which all formats are measured by."""


def why_not_one_batch(data: Buffer) -> KafkaError | None:
    """What is wrong with the bytes as a whole; None if they are one batch of format 2 by its length."""
    try:
        size = _first_size(data)
    except CorruptMessage as error:
        return error
    if size is None:
        return not_one_batch(f"a produce request must carry exactly one record batch per partition: {len(data)} bytes hold no whole one")
    if data[_MAGIC_AT] != MAGIC:
        return not_one_batch(f"record batches must have format 2, this one has {data[_MAGIC_AT]}")
    if size == len(data):
        return None
    try:
        is_more = _first_size(memoryview(data)[size:]) is not None
    except CorruptMessage as error:
        return error
    if is_more:
        return not_one_batch("a produce request must carry exactly one record batch per partition, this one carries more")
    return CorruptMessage(f"the batch claims {size} bytes, {len(data)} were sent")


def not_one_batch(text: str) -> InvalidRecord:
    """The error for bytes that are none or several batches: about the request, nobody has looked at the partition."""
    error = InvalidRecord(text)
    error.is_of_request = True
    return error


def _first_size(data: Buffer) -> int | None:
    """How many bytes the first batch has; None if it is not whole, CorruptMessage if it cannot be one."""
    if len(data) < LENGTH_OVERHEAD:
        return None
    length: int = _LENGTH.unpack_from(data, _LENGTH_AT)[0]
    if length < _SMALLEST_LENGTH:
        raise CorruptMessage(f"a batch cannot have a length of {length}")
    if len(data) <= _MAGIC_AT:
        return None
    if data[_MAGIC_AT] > MAGIC:
        raise CorruptMessage(f"there are no record batches of format {data[_MAGIC_AT]}")
    size = length + LENGTH_OVERHEAD
    return size if size <= len(data) else None
