"""Replicas are compared by their batches, wherever their segments were cut."""

import struct
from pathlib import Path

from tests.cluster.faults.segments import batches_of


def batch(base_offset: int, body: bytes) -> bytes:
    return struct.pack(">qi", base_offset, len(body)) + body


def write(directory: Path, *segments: bytes) -> Path:
    directory.mkdir()
    for number, data in enumerate(segments):
        (directory / f"{number:020}.log").write_bytes(data)
    return directory


def test_other_segments_with_the_same_batches_are_the_same(tmp_path: Path) -> None:
    first, second, third = batch(0, b"aaa"), batch(3, b"bb"), batch(5, b"c")
    one = write(tmp_path / "one", first + second, third)
    other = write(tmp_path / "other", first, second + third)
    assert batches_of(one, below=6) == batches_of(other, below=6)
    assert [found.base_offset for found in batches_of(one, below=6)] == [0, 3, 5]


def test_a_changed_byte_makes_a_difference_and_what_is_not_committed_does_not(tmp_path: Path) -> None:
    one = write(tmp_path / "one", batch(0, b"aaa") + batch(3, b"bb"))
    other = write(tmp_path / "other", batch(0, b"aaa") + batch(3, b"bx") + b"\0\0\0")
    assert batches_of(one, below=5) != batches_of(other, below=5)
    assert batches_of(one, below=3) == batches_of(other, below=3)
