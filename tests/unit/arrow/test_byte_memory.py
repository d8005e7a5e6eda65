import gc

import numpy as np
import pyarrow as pa

from millstream.arrow.byte_memory import ByteMemory

SIZE = 4 * 1024 * 1024


def address(array: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> int:
    return int(array.ctypes.data)


def test_arrays_lie_behind_each_other_as_arrow_wants_them() -> None:
    memory = ByteMemory(SIZE, is_large=True)
    flags, numbers, rest = memory.take(5, np.bool_), memory.take(3, np.int64), memory.take(0, np.uint8)
    numbers[:] = [1, 2, 3]
    flags[:] = True
    assert numbers.tolist() == [1, 2, 3]
    assert len(rest) == 0
    assert address(numbers) - flags.ctypes.data == 64
    assert flags.ctypes.data % 64 == 0


def test_memory_comes_back_only_when_the_last_array_is_gone() -> None:
    first = ByteMemory(SIZE, is_large=False).take(10, np.int64)
    first[:] = 7
    place, kept = address(first), pa.py_buffer(first[:5])
    del first
    gc.collect()
    others = [ByteMemory(SIZE, is_large=False).take(10, np.int64) for _ in range(8)]
    assert place not in [address(other) for other in others]
    assert np.frombuffer(kept, np.int64).tolist() == [7] * 5
    del kept
    gc.collect()
    assert address(ByteMemory(SIZE, is_large=False).take(10, np.int64)) == place


def test_a_piece_of_another_size_is_not_taken() -> None:
    small = ByteMemory(SIZE, is_large=False).take(1, np.int64)
    del small
    gc.collect()
    assert len(ByteMemory(2 * SIZE, is_large=False).take(2 * SIZE, np.uint8)) == 2 * SIZE


def test_the_memory_of_a_table_serves_the_next_one() -> None:
    table = [ByteMemory(SIZE, is_large=False).take(10, np.int64) for _ in range(20)]
    places = {address(piece) for piece in table}
    del table
    gc.collect()
    for piece in (again := [ByteMemory(SIZE, is_large=False).take(10, np.int64) for _ in range(20)]):
        piece[:] = 7
    assert {address(piece) for piece in again} == places
    assert all(piece.tolist() == [7] * 10 for piece in again)
