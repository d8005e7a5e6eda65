"""A number that stands for a set of rows, whatever their order and however they are split into tasks.

Each row has a hash of 64 bits of what is written for it: topic, partition (where the row asks for one), key, value and headers. The digest
is the sum of the hashes, modulo 2^64, so digests of parts add up to the digest of the whole, and a row that is there twice counts twice. It
finds differences that come by accident; it is no protection against rows that were made to have the same digest.

It is kept at brokers and compared with the next program's: another way to compute it would take every replay for a different one.
"""

from hashlib import blake2b
from typing import Final

import numpy as np

from millstream.arrow.binary_columns import BinaryColumn, Offsets, Rows
from millstream.arrow.kernels.compiled import Number, compiled, numba
from millstream.arrow.kernels.raw_memory import load_byte, load_long
from millstream.spark.sink.partitioner import NO_PARTITION

_MULTIPLIER: Final = 0x5851F42D4C957F2D
_SEEDS: Final = (0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB, 0x2545F4914F6CDD1D)
"""Where the four chains begin: far apart, so that words which change places change the outcome."""
_WORD: Final = 8
_STRIDE: Final = 32
_NULL: Final = -1
_MODULUS: Final = 1 << 64


class RowsDigest:
    """How many rows there were, and their digest."""

    def __init__(self) -> None:
        self.row_count = 0
        self.value = 0

    def add(self, topic: str, rows: Rows, wanted: Offsets | None) -> None:
        """Take in rows of one topic; `wanted` are the partitions that they ask for."""
        count = rows.key.is_null.size
        partitions = np.full(count, NO_PARTITION, dtype=np.int64) if wanted is None else wanted
        seed = int.from_bytes(blake2b(topic.encode(), digest_size=_WORD).digest(), "little", signed=True)
        self.row_count += count
        columns = (rows.key, rows.value, rows.headers.keys, rows.headers.values)
        addresses = np.array([column.data.ctypes.data for column in columns], dtype=np.int64)
        self.value = (self.value + int(row_hashes(rows, addresses, partitions, seed).sum())) % _MODULUS


if numba is None:

    def _multiply(word: Number) -> Number:
        """The low 64 bits of a product, as a signed number."""
        product = int(word) * _MULTIPLIER % _MODULUS
        return product - _MODULUS if product >= _MODULUS // 2 else product

else:

    @compiled
    def _multiply(word: Number) -> Number:
        return word * _MULTIPLIER


@compiled
def _mix(state: Number, word: Number) -> Number:
    """The next state. Each step can be undone: states that differ stay different until a word differs, too."""
    state = _multiply(state ^ word)
    return state ^ (state >> 32 & 0xFFFFFFFF)


@compiled
def _mix_bytes(state: Number, position: Number, end: Number, first: Number) -> Number:
    """The state after the bytes between two addresses: four chains that do not wait for each other, then words, then what is left.
    `first` is where the memory begins that may be read."""
    if end - position >= _STRIDE:
        one, two, three, four = state ^ _SEEDS[0], state ^ _SEEDS[1], state ^ _SEEDS[2], state ^ _SEEDS[3]
        while end - position >= _STRIDE:
            one = _mix(one, load_long(position))
            two = _mix(two, load_long(position + 8))
            three = _mix(three, load_long(position + 16))
            four = _mix(four, load_long(position + 24))
            position += _STRIDE
        state = _mix(_mix(_mix(_mix(state, one), two), three), four)
    while end - position >= _WORD:
        state = _mix(state, load_long(position))
        position += _WORD
    if position == end:
        return state
    if end - first >= _WORD:
        # The word that ends here, without what stands before: quicker than byte by byte.
        unused = 8 * (_WORD - (end - position))
        return _mix(state, load_long(end - _WORD) >> unused & (1 << 64 - unused) - 1)
    rest = 0
    for index in range(end - position):
        rest |= load_byte(position + index) << 8 * index
    return _mix(state, rest)


@compiled
def _size(column: BinaryColumn, row: Number) -> Number:
    return _NULL if column.is_null[row] else column.offsets[row + 1] - column.offsets[row]


@compiled
def _mix_field(state: Number, column: BinaryColumn, first: Number, row: Number) -> Number:
    """The state after a byte string; nothing for a null, or an empty one."""
    if column.is_null[row]:
        return state
    return _mix_bytes(state, first + column.offsets[row], first + column.offsets[row + 1], first)


@compiled
def row_hashes(rows: Rows, addresses: Offsets, partitions: Offsets, seed: Number) -> Offsets:
    """The hash of each row; `seed` stands for the topic, `addresses` is where keys, values, names and values of headers begin."""
    key, value, headers = rows.key, rows.value, rows.headers
    hashes = np.empty(partitions.size, dtype=np.int64)
    for row in range(partitions.size):
        # Sizes go before the bytes, so that no two rows with the same bytes in other places look alike.
        state = _mix(_mix(seed, partitions[row] << 32 ^ _size(key, row)), _size(value, row))
        state = _mix_field(_mix_field(state, key, addresses[0], row), value, addresses[1], row)
        if rows.has_headers and not headers.is_null[row]:
            for index in range(headers.offsets[row], headers.offsets[row + 1]):
                state = _mix(_mix(state, _size(headers.keys, index)), _size(headers.values, index))
                state = _mix_field(_mix_field(state, headers.keys, addresses[2], index), headers.values, addresses[3], index)
        # Sums of states that were only multiplied would have much in common.
        hashes[row] = _mix(_mix(state, 0), seed)
    return hashes
