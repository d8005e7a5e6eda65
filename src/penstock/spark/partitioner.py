"""Which partition a record goes to: as Kafka's Java clients decide it, so that records of one key stay together whoever writes them.

A partition in the row decides. Otherwise a key does: murmur2 of its bytes, without the sign bit, modulo the number of partitions
(librdkafka calls it `murmur2_random`). Rows without a key go to one partition until about a batch is full, then to the next, beginning
anywhere: full batches, and all partitions alike in the long run. Partitions without a leader are left out, as long as there are others.

The partitions of all topics that were met stand in one row, the *slots*; kernels know a partition by its slot.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.spark.binary_columns import BinaryColumn, Bytes, Offsets
from penstock.spark.compiled import compiled

NO_PARTITION = -1
"""In the column of partitions: let the key decide."""

_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_WORD = 0xFFFFFFFF
_NOWHERE = -1
_ALL_FINE = -1


class Slot(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class _TopicTable(NamedTuple):
    """Number of partitions and first slot of each topic, by code."""

    counts: Offsets
    first_slots: Offsets


class _Round(NamedTuple):
    """The round of one topic's rows without a key. `progress` holds whose turn it is, and the bytes it has got."""

    topic: int
    slots: Offsets
    progress: Offsets
    batch_size: int


class PartitionOutOfRange(Exception):
    """A row asks for a partition that its topic does not have."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


class Partitioner:
    """The topics that were met so far, and where each topic's round of rows without a key stands."""

    def __init__(self, *, batch_size: int, generator: random.Random | None = None) -> None:
        self.slots: list[Slot] = []
        self._batch_size = batch_size
        self._generator = generator or random.Random()
        self._codes: dict[str, int] = {}
        self._table = _TopicTable(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        self._rounds: list[_Round] = []

    def knows(self, topic: str) -> bool:
        """Whether the topic was added."""
        return topic in self._codes

    def code_of(self, topic: str) -> int:
        """The number by which `choose` knows the topic."""
        return self._codes[topic]

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic had when it was added."""
        return int(self._table.counts[self._codes[topic]])

    def add(self, topic: str, has_leader: Sequence[bool]) -> None:
        """Meet a topic, with one entry for each of its partitions."""
        code = self._codes[topic] = len(self._codes)
        first_slot = len(self.slots)
        self.slots += [Slot(topic, partition) for partition in range(len(has_leader))]
        self._table = _TopicTable(np.append(self._table.counts, len(has_leader)), np.append(self._table.first_slots, first_slot))
        led = [partition for partition, led in enumerate(has_leader) if led] or list(range(len(has_leader)))
        progress = np.array([self._generator.randrange(len(led)), 0], dtype=np.int64)
        self._rounds.append(_Round(code, first_slot + np.array(led, dtype=np.int64), progress, self._batch_size))

    def choose(self, key: BinaryColumn, *, sizes: Offsets, topics: Offsets, partitions: Offsets | None) -> Offsets:
        """The slot of each row. `topics` are codes, `partitions` are `NO_PARTITION` where the key decides; raises `PartitionOutOfRange`."""
        hashes = hash_keys(key)
        if partitions is None:
            partitions = np.full(hashes.size, NO_PARTITION, dtype=np.int64)
        slots = np.empty(hashes.size, dtype=np.int64)
        bad_row = _place_decided(hashes, topics, partitions, self._table, slots)
        if bad_row != _ALL_FINE:
            raise PartitionOutOfRange(int(bad_row))
        for code in np.unique(topics[slots == _NOWHERE]):
            _place_round(self._rounds[code], topics, sizes, slots)
        return slots


@compiled
def _multiply(word: int) -> int:
    """The low 32 bits of a product, by halves: also where nothing is compiled it must not pass 63 bits."""
    return ((word & 0xFFFF) * _MULTIPLIER + (((word >> 16) * _MULTIPLIER & 0xFFFF) << 16)) & _WORD


@compiled
def murmur2(data: Bytes, start: int, end: int) -> int:
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
            hashes[row] = _NOWHERE
        else:
            hashes[row] = murmur2(key.data, key.offsets[row], key.offsets[row + 1]) & 0x7FFFFFFF
    return hashes


@compiled
def _place_decided(hashes: Offsets, topics: Offsets, partitions: Offsets, table: _TopicTable, slots: Offsets) -> int:
    """Place the rows that name a partition or have a key. Returns the first row whose partition does not exist, -1 if all do."""
    for row in range(hashes.size):
        topic = topics[row]
        partition = partitions[row]
        if partition == NO_PARTITION:
            if hashes[row] < 0:
                slots[row] = _NOWHERE
                continue
            partition = hashes[row] % table.counts[topic]
        elif partition < 0 or partition >= table.counts[topic]:
            return row
        slots[row] = table.first_slots[topic] + partition
    return _ALL_FINE


@compiled
def _place_round(turns: _Round, topics: Offsets, sizes: Offsets, slots: Offsets) -> None:
    """Place the rows of the round's topic that nothing has placed."""
    turn, filled = turns.progress
    for row in range(slots.size):
        if slots[row] != _NOWHERE or topics[row] != turns.topic:
            continue
        if filled > 0 and filled + sizes[row] > turns.batch_size:
            turn = (turn + 1) % turns.slots.size
            filled = 0
        slots[row] = turns.slots[turn]
        filled += sizes[row]
    turns.progress[0] = turn
    turns.progress[1] = filled
