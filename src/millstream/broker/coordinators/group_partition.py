"""Which partition of `__consumer_offsets` a group belongs to. The same as in Kafka, so that its tools look in the right place."""

from functools import lru_cache
from typing import Final

REMEMBERED: Final = 8_192
SHORT: Final = 256
"""Longer ids are not remembered, so that what is remembered is bounded in bytes, too."""


def partition_of_group(group_id: str, partition_count: int) -> int:
    """Java's `String.hashCode` without its sign, modulo the number of partitions."""
    hash_code = _short_hash_code(group_id) if len(group_id) <= SHORT else java_hash_code(group_id)
    return (hash_code & 0x7FFFFFFF) % partition_count


def java_hash_code(text: str) -> int:
    """Java's `String.hashCode`, as 32 bits without sign: over UTF-16 units, not over characters."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    hash_code = 0
    for unit in units:
        hash_code = (31 * hash_code + unit) & 0xFFFFFFFF
    return hash_code


_short_hash_code = lru_cache(REMEMBERED)(java_hash_code)
