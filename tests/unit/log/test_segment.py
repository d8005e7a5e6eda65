from pathlib import Path

import pytest

from millstream.errors import CorruptMessage
from millstream.files import FileHandle, Files
from millstream.log.config import LogConfig
from millstream.log.segment import Segment
from tests.batches import encode_batch

CONFIG = LogConfig(index_interval_bytes=200)


def make(path: Path, *, base: int = 100, batches: int = 0, config: LogConfig = CONFIG) -> Segment:
    segment = Segment.create(Files(), path, base, config=config, created_ms=0)
    for number in range(batches):
        add(segment, base + 2 * number, timestamp=1000 + number)
    return segment


def add(segment: Segment, base_offset: int, *, timestamp: int) -> None:
    batch = encode_batch([b"a" * 20, b"b" * 20], base_offset=base_offset, timestamp=timestamp)
    segment.write([batch[:16], memoryview(batch)[16:]], segment.size_bytes)
    segment.extend(len(batch), last_offset=base_offset + 1, max_timestamp=timestamp)


def opened_again(segment: Segment, path: Path) -> Segment:
    segment.seal()
    return Segment(Files(), path, segment.base_offset, config=CONFIG, created_ms=0, size_bytes=segment.size_bytes)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_find_answers_the_batch_that_holds_the_offset(tmp_path: Path, *, is_sealed: bool) -> None:
    segment = make(tmp_path, batches=300)
    if is_sealed:
        segment = opened_again(segment, tmp_path)
    size = segment.size_bytes // 300
    for offset in range(100, 700):
        assert segment.find(offset) == (offset - 100) // 2 * size
    assert segment.find(700) == segment.size_bytes
    assert segment.find(5) == 0


@pytest.mark.parametrize("interval", [1, 40_000])
def test_large_batches_are_found_with_and_without_an_entry_of_their_own(tmp_path: Path, *, interval: int) -> None:
    segment = make(tmp_path, config=LogConfig(index_interval_bytes=interval))
    ends = []
    for number in range(100):
        # Of every five offsets compaction has left three.
        batch = encode_batch([b"a" * 10_000] * 3, base_offset=100 + 5 * number, timestamp=1000)
        segment.write([batch], segment.size_bytes)
        segment.extend(len(batch), last_offset=102 + 5 * number, max_timestamp=1000)
        ends.append(segment.size_bytes)
    sealed = opened_again(segment, tmp_path)
    starts = [0, *ends[:-1]]
    for offset in [*range(100, 600, 7), *range(100, 110), *range(590, 598)]:
        number = max(0, offset - 98) // 5
        position = sealed.find(offset)
        assert position == starts[number], offset
        assert sealed.end_of_batch_at(position) == ends[number]
        assert sealed.end_of_batch_at(starts[number // 2]) == ends[number // 2]
    assert sealed.find(598) == sealed.size_bytes


def test_what_was_found_is_forgotten_when_the_segment_is_cut(tmp_path: Path) -> None:
    segment = opened_again(make(tmp_path, batches=5), tmp_path)
    size = segment.size_bytes // 5
    assert segment.end_of_batch_at(segment.find(104)) == 3 * size
    segment.truncate_to(104)
    batch = encode_batch([b"longer" * 20], base_offset=104, timestamp=2000)
    segment.write([batch], segment.size_bytes)
    segment.extend(len(batch), last_offset=104, max_timestamp=2000)
    assert segment.end_of_batch_at(segment.find(104)) == 2 * size + len(batch)


def test_sealed_segment_is_not_opened_before_it_is_read(tmp_path: Path) -> None:
    segment = opened_again(make(tmp_path, batches=3), tmp_path)
    is_open = [segment._handle is not None]
    segment.find(102)
    is_open.append(segment._handle is not None)
    segment.release()
    is_open.append(segment._handle is not None)
    assert is_open == [False, True, False]


def test_end_of_batch_is_known_for_recent_and_for_old_batches(tmp_path: Path) -> None:
    segment = make(tmp_path, batches=200)
    size = segment.size_bytes // 200
    assert [segment.end_of_batch_at(position) for position in (0, size, 199 * size)] == [size, 2 * size, 200 * size]


def test_largest_timestamp_is_the_first_batch_that_has_it(tmp_path: Path) -> None:
    segment = make(tmp_path)
    for number, timestamp in enumerate((50, 90, 90, 70)):
        add(segment, 100 + 2 * number, timestamp=timestamp)
    assert segment.largest == (90, 103)
    assert opened_again(segment, tmp_path).largest == (90, 103)


def test_truncation_leaves_whole_batches_and_fitting_indexes(tmp_path: Path) -> None:
    segment = make(tmp_path, batches=100)
    size = segment.size_bytes // 100
    segment.truncate_to(141)
    assert segment.size_bytes == segment.path().stat().st_size == 20 * size
    assert segment.find(139) == 19 * size
    assert segment.largest == (1019, 139)
    assert segment.offset_index.last_key < 40
    add(segment, 140, timestamp=5000)
    assert segment.find(141) == 20 * size


def test_bytes_of_a_failed_append_are_overwritten_by_the_next(tmp_path: Path) -> None:
    segment = make(tmp_path, batches=1)
    Files().write_all(segment.handle(), [b"garbage" * 100], segment.size_bytes)
    segment.cut(segment.size_bytes)
    assert segment.path().stat().st_size == segment.size_bytes


def test_damaged_header_is_reported_instead_of_skipped(tmp_path: Path) -> None:
    segment = opened_again(make(tmp_path, batches=10), tmp_path)
    size = segment.size_bytes // 10
    for field in (8, 9, 16):
        handle = segment.handle()
        position = 2 * size + field
        original = Files().pread(handle, 1, position)
        Files().write_all(handle, [b"\x7f"], position)
        with pytest.raises(CorruptMessage, match="damaged"):
            segment._walk(117, 0)
        Files().write_all(handle, [original], position)
    assert segment._walk(117, 0) == 8 * size


class NotingFiles(Files):
    """Notes to which sizes files were cut."""

    def __init__(self) -> None:
        self.cuts: list[tuple[str, int]] = []

    def truncate(self, handle: FileHandle, size: int) -> None:
        self.cuts.append((handle.path.name, size))
        super().truncate(handle, size)


def test_only_what_is_left_of_a_crash_is_cut_as_closing_a_file_that_was_cut_to_nothing_writes_it_to_the_disk(tmp_path: Path) -> None:
    files = NotingFiles()
    Segment.create(files, tmp_path, 100, config=CONFIG, created_ms=0)
    assert files.cuts == []
    (tmp_path / f"{200:020d}.log").write_bytes(b"left by a crash")
    segment = Segment.create(files, tmp_path, 200, config=CONFIG, created_ms=0)
    assert files.cuts == [(segment.path().name, 0)]
    assert segment.path().stat().st_size == 0


def test_preallocated_file_has_its_real_size_when_sealed(tmp_path: Path) -> None:
    segment = make(tmp_path, batches=2, config=LogConfig(preallocate=True, segment_bytes=10_000))
    assert segment.path().stat().st_size == 10_000
    segment.seal()
    assert segment.path().stat().st_size == segment.size_bytes


def test_full_index_is_noticed_while_there_is_room_for_the_entry_of_sealing(tmp_path: Path) -> None:
    segment = make(tmp_path, config=LogConfig(index_interval_bytes=1, segment_index_bytes=40))
    number = 0
    while not segment.is_index_full:
        add(segment, 100 + 2 * number, timestamp=number + 1)
        number += 1
    segment.seal()
    assert number > 2
    assert segment.time_index.path.stat().st_size <= 40
    assert segment.offset_index.path.stat().st_size <= 40


def test_deleted_segment_is_renamed_and_its_readers_go_on(tmp_path: Path) -> None:
    segment = make(tmp_path, batches=2)
    segment.seal()
    handle = segment.handle()
    marked = segment.mark_deleted()
    assert sorted(path.name for path in marked) == [f"{100:020d}.{kind}.deleted" for kind in ("index", "log", "timeindex")]
    assert all(path.exists() for path in marked)
    for path in marked:
        path.unlink()
    assert len(Files().pread(handle, segment.size_bytes, 0)) == segment.size_bytes
