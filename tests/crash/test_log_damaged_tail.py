"""The end of a log damaged in every way at every byte: recovery keeps every batch before the damage and nothing after it.

Three batches at the end; everything before them must come back whole, and what comes back must be what was written.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.directories.directory import LogDirectory
from millstream.log.loading import LoadOrder
from millstream.log.log import Log
from millstream.topic_partition import TopicPartition
from tests.unit.log.conftest import NOW_MS
from tests.unit.log.partition import append, values

CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=300)
BATCHES = 20


def open_log(root: Path, *, is_clean: bool = False, recovery_point: int = 0) -> Log:
    directory = LogDirectory(Files(), root, on_offline=lambda _directory, _error: None)
    path = root / "orders-0"
    path.mkdir(parents=True, exist_ok=True)
    return Log(directory, TopicPartition("orders", 0), path, LoadOrder(CONFIG, NOW_MS, is_clean=is_clean, recovery_point=recovery_point))


@pytest.fixture
def written(tmp_path: Path) -> Log:
    log = open_log(tmp_path / "made", is_clean=True)
    for number in range(BATCHES):
        append(log, str(number).encode().ljust(40, b"."), producer_id=1, producer_epoch=0, base_sequence=number)
    log.close()
    return log


def cut(data: bytes, position: int) -> bytes:
    return data[:position]


def flip(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0x41]) + data[position + 1 :]


def zero_the_rest(data: bytes, position: int) -> bytes:
    return data[:position] + bytes(len(data) - position)


def garbage_from_here(data: bytes, position: int) -> bytes:
    return data[:position] + b"\xde\xad\xbe\xef" * 64


def double_from_here(data: bytes, position: int) -> bytes:
    return data[:position] + data


@pytest.mark.parametrize("damage", [cut, flip, zero_the_rest, garbage_from_here, double_from_here])
def test_log_ends_before_the_first_damaged_byte(tmp_path: Path, written: Log, damage: Callable[[bytes, int], bytes]) -> None:
    last = written.segment_base_offsets[-1]
    name = f"{last:020d}.log"
    data = (written.path / name).read_bytes()
    size = len(data) // (BATCHES - last)
    expected = [str(number).encode().ljust(40, b".") for number in range(BATCHES)]
    for position in range(len(data) - min(3 * size, len(data)), len(data)):
        root = tmp_path / "damaged"
        shutil.copytree(written.path.parent, root)
        (root / "orders-0" / name).write_bytes(damage(data, position))
        log = open_log(root, recovery_point=last)
        whole = last + position // size
        # The leader epoch and the base offset are not covered by the CRC: a flip there may go unnoticed or end the log.
        is_stamp = damage is flip and position % size < 16
        found = values(log)
        assert found == expected[: len(found)]
        assert len(found) == log.log_end_offset or is_stamp
        assert len(found) >= whole
        assert is_stamp or len(found) == whole or damage(data, position)[: (whole + 1 - last) * size] == data[: (whole + 1 - last) * size]
        entry = next(iter(log.producers))
        assert is_stamp or entry.last_sequence == log.log_end_offset - 1
        shutil.rmtree(root)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("content", [None, b"", b"\x00", b"\xff" * 100, b"0\n5\nx"])
def test_every_other_file_may_be_missing_or_damaged(tmp_path: Path, written: Log, content: bytes | None, *, is_clean: bool) -> None:
    expected = [str(number).encode().ljust(40, b".") for number in range(BATCHES)]
    for victim in sorted(path.name for path in written.path.iterdir() if path.suffix != ".log"):
        root = tmp_path / "damaged"
        shutil.copytree(written.path.parent, root)
        path = root / "orders-0" / victim
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        log = open_log(root, is_clean=is_clean, recovery_point=BATCHES)
        assert values(log) == expected, victim
        assert log.end_offset_for_epoch(0) == (0, BATCHES), victim
        assert next(iter(log.producers)).last_sequence == BATCHES - 1, victim
        shutil.rmtree(root)
