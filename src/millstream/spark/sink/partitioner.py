"""Which partition a record goes to: as Kafka's Java clients decide it, so that records of one key stay together whoever writes them.

A partition in the row decides. Otherwise a key does: murmur2 of its bytes, without the sign bit, modulo the number of partitions
(librdkafka calls it `murmur2_random`). Rows without a key go to one partition until about a batch is full, then to the next, beginning
anywhere: full batches, and all partitions alike in the long run. Partitions without a leader are left out, as long as there are others.
"""

import random
from collections.abc import Sequence

import numpy as np

from millstream.arrow.binary_columns import BinaryColumn, Offsets
from millstream.arrow.kernels.compiled import Bytes, Number, compiled

NO_PARTITION = -1
"""In the column of partitions: let the key decide."""

_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_WORD = 0xFFFFFFFF
_NO_KEY = -1
_ALL_FINE = -1


class PartitionOutOfRange(Exception):
    """A row asks for a partition that its topic does not have."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


class Partitioner:
    """The partitions of one topic as one task knows them, and where the round of rows without a key stands."""

    def __init__(self, has_leader: Sequence[bool], *, batch_size: int, generator: random.Random | None = None) -> None:
        self.partition_count = len(has_leader)
        self._batch_size = batch_size
        led = [partition for partition, is_led in enumerate(has_leader) if is_led] or list(range(len(has_leader)))
        self._round: Offsets = np.array(led, dtype=np.int64)
        first = (generator or random.Random()).randrange(len(led))
        self._progress: Offsets = np.array([first, 0], dtype=np.int64)
        """Whose turn it is in the round, and how many bytes that partition has got."""

    def choose(self, key: BinaryColumn, *, sizes: Offsets, wanted: Offsets | None = None) -> Offsets:
        """The partition of each row; `wanted` is `NO_PARTITION` where the key decides. Raises `PartitionOutOfRange`."""
        hashes = hash_keys(key)
        partitions = np.full(hashes.size, NO_PARTITION, dtype=np.int64) if wanted is None else wanted.copy()
        bad_row = _place_keys(hashes, self.partition_count, partitions)
        if bad_row != _ALL_FINE:
            raise PartitionOutOfRange(int(bad_row))
        _place_rest(partitions, sizes, self._round, self._progress, self._batch_size)
        return partitions


@compiled
def _multiply(word: Number) -> Number:
    """The low 32 bits of a product, by halves: also where nothing is compiled it must not pass 63 bits."""
    return ((word & 0xFFFF) * _MULTIPLIER + (((word >> 16) * _MULTIPLIER & 0xFFFF) << 16)) & _WORD


@compiled
def murmur2(data: Bytes, start: Number, end: Number) -> Number:
    """Kafka's murmur2 of data[start:end], as an unsigned number of 32 bits."""
    digest = _SEED ^ (end - start)
    position = start
    while position + 4 <= end:
        word = (
            np.int64(data[position])
            | np.int64(data[position + 1]) << 8
            | np.int64(data[position + 2]) << 16
            | np.int64(data[position + 3]) << 24
        )
        word = _multiply(word)
        digest = _multiply(digest) ^ _multiply(word ^ word >> 24)
        position += 4
    rest = end - position
    if rest == 3:
        digest ^= np.int64(data[position + 2]) << 16
    if rest >= 2:
        digest ^= np.int64(data[position + 1]) << 8
    if rest >= 1:
        digest = _multiply(digest ^ np.int64(data[position]))
    digest = _multiply(digest ^ digest >> 13)
    return digest ^ digest >> 15


@compiled
def hash_keys(key: BinaryColumn) -> Offsets:
    """The positive murmur2 of each key; -1 for rows without one."""
    hashes = np.empty(key.is_null.size, dtype=np.int64)
    for row in range(hashes.size):
        if key.is_null[row]:
            hashes[row] = _NO_KEY
        else:
            hashes[row] = murmur2(key.data, key.offsets[row], key.offsets[row + 1]) & 0x7FFFFFFF
    return hashes


@compiled
def _place_keys(hashes: Offsets, partition_count: int, partitions: Offsets) -> int:
    """Place the rows that have a key and no partition yet. Returns the first row whose partition does not exist, -1 if all do."""
    for row in range(hashes.size):
        if partitions[row] != NO_PARTITION:
            if partitions[row] < 0 or partitions[row] >= partition_count:
                return row
        elif hashes[row] != _NO_KEY:
            partitions[row] = hashes[row] % partition_count
    return _ALL_FINE


@compiled
def _place_rest(partitions: Offsets, sizes: Offsets, members: Offsets, progress: Offsets, batch_size: int) -> None:
    """Place the rows that nothing has placed, by turns."""
    turn, filled = progress
    for row in range(partitions.size):
        if partitions[row] != NO_PARTITION:
            continue
        if filled > 0 and filled + sizes[row] > batch_size:
            turn = (turn + 1) % members.size
            filled = 0
        partitions[row] = members[turn]
        filled += sizes[row]
    progress[0] = turn
    progress[1] = filled
