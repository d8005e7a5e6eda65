"""Which partition a key belongs to, as every Kafka client says it: murmur2 of its bytes, without the sign bit, modulo the partitions.

For few keys. Many are hashed by compiled code, in `spark.sink.partitioner`.
"""

from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_WORD: Final = 0xFFFFFFFF


def key_partition(key: bytes, partition_count: int) -> int:
    """The partition of a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def murmur2(data: bytes) -> int:
    """Kafka's murmur2, as an unsigned number of 32 bits."""
    digest = _SEED ^ len(data)
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        word = _times(int.from_bytes(data[position : position + 4], "little"))
        digest = _times(digest) ^ _times(word ^ word >> 24)
    if whole < len(data):
        digest = _times(digest ^ int.from_bytes(data[whole:], "little"))
    digest = _times(digest ^ digest >> 13)
    return digest ^ digest >> 15


def _times(word: int) -> int:
    return word * _MULTIPLIER & _WORD
