"""Files as programs that write logs treat them: appended to, renamed, cut off, deleted; and a follower that comes back later."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millstream.cli.produce import followed_file
from millstream.cli.produce.followed_file import ROTATED_GRACE_S, FilePlace, FollowedFile
from millstream.errors import CommandFailed, UsageError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Follow:
    """Follows a file, and is started again with what it remembered."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = Clock()
        self.saved: list[FilePlace] = []
        self.remarks: list[str] = []
        self.start()

    def start(self, *, from_end: bool = False) -> None:
        self.file = FollowedFile(self.path, self.saved, from_end, self.clock)
        self.file.start()
        self.remarks = self.file.remarks

    def read(self) -> list[bytes]:
        """All that is there; then it is remembered."""
        found: list[bytes] = []
        while lines := list(self.file.lines()):
            found += lines
        self.saved = self.file.places()
        return found

    def restart(self) -> None:
        self.file.close()
        self.start()

    def let_the_rotated_file_go(self) -> None:
        self.clock.now += ROTATED_GRACE_S + 1


Following = Callable[[Path], Follow]


@pytest.fixture
def following() -> Iterator[Following]:
    """Follows files, and closes them when the test ends."""
    made: list[Follow] = []

    def follow(path: Path) -> Follow:
        made.append(Follow(path))
        return made[-1]

    yield follow
    for one in made:
        one.file.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\ntwo\n")
    return path


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_lines_come_when_they_are_complete(log: Path, following: Following) -> None:
    follow = following(log)
    assert follow.read() == [b"one", b"two"]
    append(log, b"thr")
    assert follow.read() == []
    append(log, b"ee\n\nfour\n")
    assert follow.read() == [b"three", b"", b"four"]


def test_reading_goes_on_where_it_was_after_a_restart(log: Path, following: Following) -> None:
    follow = following(log)
    follow.read()
    append(log, b"half")
    follow.read()
    follow.restart()
    append(log, b" a line\n")
    assert follow.read() == [b"half a line"]


def test_what_was_not_remembered_is_read_again(log: Path, following: Following) -> None:
    follow = following(log)
    follow.read()
    append(log, b"three\n")
    assert list(follow.file.lines()) == [b"three"]  # and killed before that was delivered
    follow.restart()
    assert follow.read() == [b"three"]


def test_line_that_was_handed_out_last_is_not_remembered_before_the_next_is_asked_for(log: Path, following: Following) -> None:
    follow = following(log)
    assert next(follow.file.lines()) == b"one"  # interrupted before it was handed over
    follow.saved = follow.file.places()
    follow.restart()
    assert follow.read() == [b"one", b"two"]


def test_rotated_file_is_read_to_its_end_before_and_while_the_new_one_is(log: Path, following: Following) -> None:
    follow = following(log)
    follow.read()
    rotated = log.with_name("app.log.1")
    append(log, b"three\n")
    log.rename(rotated)
    log.write_bytes(b"new\n")
    assert follow.read() == [b"three", b"new"]
    append(rotated, b"late\nunfinished")
    append(log, b"newer\n")
    assert follow.read() == [b"late", b"newer"]
    follow.let_the_rotated_file_go()
    assert follow.read() == [b"unfinished"]
    assert len(follow.saved) == 1


def test_file_that_comes_later_is_waited_for(tmp_path: Path, following: Following) -> None:
    follow = following(tmp_path / "later.log")
    assert follow.read() == []
    follow.path.write_bytes(b"one\n")
    assert follow.read() == [b"one"]
    follow.path.unlink()
    assert follow.read() == []
    follow.path.write_bytes(b"two\n")
    assert follow.read() == [b"two"]


@pytest.mark.parametrize("rotations", [1, 2, 3])
def test_files_that_were_rotated_away_meanwhile_are_read(log: Path, following: Following, rotations: int) -> None:
    follow = following(log)
    follow.read()
    append(log, b"last\n")
    follow.file.close()
    for number in range(rotations):
        for old in range(number, 0, -1):
            log.with_name(f"app.log.{old}").rename(log.with_name(f"app.log.{old + 1}"))
        log.rename(log.with_name("app.log.1"))
        log.write_bytes(b"new %d\n" % number)
    set_times_in_order(log, rotations)
    follow.start()
    assert follow.read() == [b"last", *(b"new %d" % number for number in range(rotations))]
    follow.restart()
    assert follow.read() == []


def set_times_in_order(log: Path, rotations: int) -> None:
    """Files that a test writes within a microsecond may have the same time."""
    names = [*(log.with_name(f"app.log.{number}") for number in range(rotations, 0, -1)), log]
    for second, path in enumerate(names):
        os.utime(path, (second, second))


def test_two_rotations_between_two_looks_are_noticed(log: Path, following: Following) -> None:
    follow = following(log)
    follow.read()
    for number in range(2):
        if number:
            log.with_name("app.log.1").rename(log.with_name("app.log.2"))
        log.rename(log.with_name("app.log.1"))
        log.write_bytes(b"new %d\n" % number)
    assert follow.read() == [b"new 0", b"new 1"]
    follow.let_the_rotated_file_go()
    assert follow.read() == []
    follow.restart()
    assert follow.read() == []


def test_older_files_that_were_never_asked_for_stay_unread(log: Path, following: Following) -> None:
    log.with_name("app.log.1").write_bytes(b"ancient\n")
    follow = following(log)
    assert follow.read() == [b"one", b"two"]
    follow.restart()
    assert follow.read() == []


def test_compressed_and_other_files_beside_it_are_no_rotated_ones(log: Path, following: Following) -> None:
    follow = following(log)
    follow.read()
    log.rename(log.with_name("app.log.1.gz"))
    for name in ("app.log.1.gz", "app.log.old", "app.logs", "xapp.log.1"):
        log.with_name(name).write_bytes(b"no\n")
    log.write_bytes(b"new\n")
    follow.restart()
    assert follow.read() == [b"new"]
    assert "not there any more" in follow.remarks[0]


@pytest.mark.parametrize("content", [b"", b"x\n", b"other\n", b"other content that is longer\nthan what was there\n"])
def test_file_that_is_cut_off_or_overwritten_is_read_from_its_beginning(log: Path, following: Following, content: bytes) -> None:
    follow = following(log)
    follow.read()
    with log.open("r+b") as file:
        file.truncate(0)
        file.write(content)
    assert follow.read() == content.splitlines()
    append(log, b"more\n")
    assert follow.read() == [b"more"]


def test_file_that_was_cut_off_meanwhile_is_read_from_its_beginning(log: Path, following: Following) -> None:
    follow = following(log)
    follow.read()
    follow.file.close()
    with log.open("r+b") as file:
        file.truncate(0)
        file.write(b"1\n")
    follow.start()
    assert follow.read() == [b"1"]


def test_other_file_with_the_same_inode_is_not_taken_for_the_old_one(log: Path, following: Following) -> None:
    follow = following(log)
    follow.read()
    follow.file.close()
    follow.saved = [place._replace(head=b"something else") for place in follow.saved]
    follow.start()
    assert follow.read() == [b"one", b"two"]


def test_files_that_were_never_seen_can_be_read_from_their_end(log: Path, following: Following) -> None:
    follow = following(log)
    follow.file.close()
    follow.start(from_end=True)
    assert follow.read() == []
    append(log, b"three\n")
    assert follow.read() == [b"three"]
    follow.file.close()
    append(log, b"four\n")
    follow.start(from_end=True)
    assert follow.read() == [b"four"]


def test_what_is_no_file_of_lines_is_refused(log: Path, following: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        following(log.parent)
    monkeypatch.setattr(followed_file, "LONGEST_LINE", 10)
    follow = following(log)
    append(log, b"x" * 20)
    with pytest.raises(CommandFailed, match="at byte 8 is longer"):
        follow.read()
