import errno
from pathlib import Path

import pytest

from millstream.files import FileHandle, Files, count_open_handles
from millstream.log import offset_index
from millstream.log.offset_index import OffsetIndex
from millstream.log.sparse_index import BLOCK_BYTES, whole_entries


def filled(path: Path, count: int) -> OffsetIndex:
    index = OffsetIndex(Files(), path)
    for number in range(count):
        index.add(number * 10 + 9, number * 5000)
    return index


@pytest.mark.parametrize("count", [1, 2, 511, 512, 513, 1024, 3000])
def test_lookup_finds_the_last_entry_at_or_below(tmp_path: Path, count: int) -> None:
    index = filled(tmp_path / "i", count)
    for key in [0, 8, 9, 10, 11, count * 5, count * 10 - 2, count * 10 - 1, count * 10, count * 10 + 500]:
        expected = min((key - 9) // 10, count - 1) if key >= 9 else -1
        assert index.last_at_or_below(key) == expected, key


def test_lookup_is_the_same_after_the_index_was_closed_and_opened(tmp_path: Path) -> None:
    index = filled(tmp_path / "i", 2000)
    index.write_out()
    again = OffsetIndex(Files(), tmp_path / "i", written=whole_entries(Files(), tmp_path / "i", entry=offset_index.ENTRY))
    assert len(again) == 2000
    assert again.last_key == 19_999
    assert all(again.last_at_or_below(key) == index.last_at_or_below(key) for key in range(0, 20_100, 7))


def test_only_a_block_of_entries_is_kept_in_memory(tmp_path: Path) -> None:
    filled(tmp_path / "i", BLOCK_BYTES // 8 + 1)
    assert (tmp_path / "i").stat().st_size == BLOCK_BYTES


def test_truncation_works_on_written_and_on_pending_entries(tmp_path: Path) -> None:
    index = filled(tmp_path / "i", 700)
    index.truncate(600)
    assert (len(index), index.last_key) == (600, 5999)
    index.truncate(5)
    assert (len(index), index.last_key) == (5, 49)
    index.add(100, 1)
    index.write_out()
    assert (tmp_path / "i").stat().st_size == 6 * 8
    index.truncate(0)
    assert (len(index), index.last_key, index.position_for(50)) == (0, -1, 0)


def test_release_closes_the_file_and_it_comes_back_when_needed(tmp_path: Path) -> None:
    index = filled(tmp_path / "i", 600)
    before = index.last_at_or_below(77)
    index.release()
    assert index.last_at_or_below(77) == before


def test_a_file_that_is_not_whole_entries_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(b"x" * 17)
    assert whole_entries(Files(), tmp_path / "i", entry=offset_index.ENTRY) == -1
    assert whole_entries(Files(), tmp_path / "none", entry=offset_index.ENTRY) == 0


def test_a_file_that_became_shorter_is_an_error_and_not_a_wrong_answer(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(bytes(8))
    with pytest.raises(OSError, match="ended before entry"):
        OffsetIndex(Files(), tmp_path / "i", written=3)


def test_an_index_that_is_only_written_keeps_no_file_open(tmp_path: Path) -> None:
    before = count_open_handles()
    index = filled(tmp_path / "i", 3000)
    index.write_out()
    held = index.handle()
    assert count_open_handles() == before + 1
    del held
    assert count_open_handles() == before
    index.last_at_or_below(77)
    assert count_open_handles() == before + 1
    index.close_file()
    assert count_open_handles() == before
    index.truncate(2500)
    index.close_file()
    assert count_open_handles() == before


class ExhaustedFiles(Files):
    """Has no descriptor left while `is_exhausted`."""

    is_exhausted = True
    opened = 0

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FileHandle:
        if self.is_exhausted:
            raise OSError(errno.EMFILE, "Too many open files")
        self.opened += 1
        return super().open(path, create=create, read_only=read_only)


def test_without_a_descriptor_entries_wait_in_memory(tmp_path: Path) -> None:
    files = ExhaustedFiles()
    index = OffsetIndex(files, tmp_path / "i")
    for number in range(1500):
        index.add(number, number)
    assert not (tmp_path / "i").exists()
    assert index.position_for(1234) == 1234
    files.is_exhausted = False
    index.add(1500, 1500)
    assert (tmp_path / "i").stat().st_size == 1501 * 8
    assert index.position_for(77) == 77


def test_a_search_opens_the_file_once(tmp_path: Path) -> None:
    files = ExhaustedFiles()
    files.is_exhausted = False
    index = OffsetIndex(files, tmp_path / "i")
    for number in range(20_000):
        index.add(number, number)
    index.release()
    files.opened = 0
    assert index.position_for(4321) == 4321
    assert files.opened == 1


class CountingFiles(Files):
    """Counts how often something is read."""

    reads = 0

    def pread(self, handle: FileHandle, length: int, position: int) -> bytes:
        self.reads += 1
        return super().pread(handle, length, position)


def test_a_lookup_anywhere_reads_one_block_once_the_first_keys_are_known(tmp_path: Path) -> None:
    files = CountingFiles()
    index = OffsetIndex(files, tmp_path / "i")
    for number in range(20_000):
        index.add(number * 2, number)
    places = [number * 7919 % 20_000 for number in range(200)]
    for number in places:
        assert index.position_for(number * 2 + 1) == number
    files.reads = 0
    for number in places:
        assert index.position_for(number * 2 + 1) == number
    assert files.reads <= len(places)


def test_entries_that_were_added_since_a_lookup_are_found(tmp_path: Path) -> None:
    index = filled(tmp_path / "i", 100)
    index.write_out()
    assert index.last_at_or_below(5000) == 99
    for number in range(100, 1400):
        index.add(number * 10 + 9, number * 5000)
        index.write_out()
        assert index.last_at_or_below(number * 10 + 10) == number
    index.truncate(150)
    index.add(1500, 7)
    assert [index.last_at_or_below(key) for key in (1499, 1500, 99_999)] == [149, 150, 150]


def test_what_is_at_hand_needs_no_file(tmp_path: Path) -> None:
    index = filled(tmp_path / "i", BLOCK_BYTES // 8 * 2 + 3)
    assert [index.is_at_hand(number) for number in (1023, 1024, 1026, 1027)] == [False, True, True, False]
    index.last_at_or_below(600 * 10)
    assert [index.is_at_hand(number) for number in (-1, 511, 512, 1023, 1024, 1027)] == [False, False, True, True, True, False]
    index.release()
    assert not index.is_at_hand(600)
