import contextlib
from pathlib import Path

import pytest

from millstream.errors import StartupError
from millstream.files import Files
from millstream.zookeeper import journal as journal_module
from millstream.zookeeper.change import SessionOpened
from millstream.zookeeper.journal import Journal
from millstream.zookeeper.operations import Create, Delete, SetData, TreeOperation
from millstream.zookeeper.snapshot import encode_snapshot
from millstream.zookeeper.tree import Tree
from tests.unit.zookeeper.crashing_files import CrashingFiles


def opened(directory: Path, files: Files | None = None) -> tuple[Journal, Tree]:
    journal = Journal(directory, files=files or Files())
    return journal, journal.recover()


def write(journal: Journal, tree: Tree, *operations: TreeOperation) -> None:
    journal.append(tree.execute(operations, session_id=0, identities=None, time_ms=1).transaction)


def flush(journal: Journal) -> None:
    flush = journal.begin_flush()
    if flush is not None:
        flush.run()
        journal.complete_flush(flush)


def snapshot(journal: Journal, tree: Tree) -> bool:
    snapshot = journal.begin_snapshot(tree)
    if snapshot is None:
        return False
    snapshot.run()
    journal.complete_snapshot()
    return True


def test_a_tree_comes_back_as_it_was(tmp_path: Path) -> None:
    journal, tree = opened(tmp_path)
    journal.append(tree.commit([SessionOpened(7, 1000, b"password", "")], time_ms=1).transaction)
    journal.append(tree.execute([Create("/e", ephemeral=True)], session_id=7, identities=None, time_ms=2).transaction)
    for number in range(5):
        write(journal, tree, Create("/n-", str(number).encode(), sequential=True))
    write(journal, tree, Delete("/n-0000000002"), SetData("/n-0000000003", b"changed"))
    again = opened(tmp_path)[1]
    assert encode_snapshot(again) == encode_snapshot(tree)
    assert list(again.sessions[7].ephemerals) == ["/e"]
    assert again.last_zxid == tree.last_zxid


def test_an_empty_directory_is_an_empty_tree(tmp_path: Path) -> None:
    assert encode_snapshot(opened(tmp_path / "new" / "directory")[1]) == encode_snapshot(Tree())


def test_writing_goes_on_behind_what_was_there(tmp_path: Path) -> None:
    for name in ("/a", "/b", "/c"):
        journal, tree = opened(tmp_path)
        write(journal, tree, Create(name))
    assert {"/a", "/b", "/c"} <= opened(tmp_path)[1].nodes.keys()


def test_a_tail_cut_at_any_byte_leaves_the_transactions_before_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal, tree = opened(tmp_path / "whole")
    ends = []
    path = next((tmp_path / "whole").iterdir())
    for name in ("/a", "/b", "/c"):
        write(journal, tree, Create(name))
        ends.append(path.stat().st_size)
    content = path.read_bytes()
    for cut in range(len(content)):
        directory = tmp_path / str(cut)
        directory.mkdir()
        (directory / path.name).write_bytes(content[:cut])
        journal, recovered = opened(directory)
        expected = sum(end <= cut for end in ends)
        assert recovered.last_zxid == expected
        write(journal, recovered, Create("/next"))
        assert opened(directory)[1].last_zxid == expected + 1
    assert "are cut off" in caplog.text


def test_a_damaged_byte_never_becomes_another_tree(tmp_path: Path) -> None:
    journal, tree = opened(tmp_path / "whole")
    snapshots = [encode_snapshot(tree)]
    for name in ("/a", "/b", "/c"):
        write(journal, tree, Create(name))
        snapshots.append(encode_snapshot(tree))
    path = next((tmp_path / "whole").iterdir())
    content = path.read_bytes()
    for position in range(len(content)):
        directory = tmp_path / str(position)
        directory.mkdir()
        (directory / path.name).write_bytes(content[:position] + bytes([content[position] ^ 0x41]) + content[position + 1 :])
        assert encode_snapshot(opened(directory)[1]) in snapshots[:-1]


def test_transactions_behind_a_damaged_one_are_kept_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal, tree = opened(tmp_path)
    ends = []
    (path,) = tmp_path.iterdir()
    for name in ("/a", "/b", "/c"):
        write(journal, tree, Create(name))
        ends.append(path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[ends[0] + 12] ^= 0x41
    path.write_bytes(content)
    assert opened(tmp_path)[1].last_zxid == 1
    assert path.with_name(path.name + ".damaged-1").read_bytes() == content
    assert "is damaged at byte" in caplog.text
    caplog.clear()
    journal, tree = opened(tmp_path)
    assert tree.last_zxid == 1
    assert not caplog.text
    for name in ("/x", "/y"):
        write(journal, tree, Create(name))
    again = bytearray(path.read_bytes())
    again[ends[0] + 12] ^= 0x41
    path.write_bytes(again)
    assert opened(tmp_path)[1].last_zxid == 1
    assert path.with_name(path.name + ".damaged-1").read_bytes() == content, "a second damage does not cost what was kept at the first"
    assert path.with_name(path.name + ".damaged-2").read_bytes() == again


def test_broken_last_transaction_leaves_no_copy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal, tree = opened(tmp_path)
    write(journal, tree, Create("/a"))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert opened(tmp_path)[1].last_zxid == 0
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert "is damaged" not in caplog.text


def test_garbage_behind_the_last_transaction_is_cut_off(tmp_path: Path) -> None:
    journal, tree = opened(tmp_path)
    write(journal, tree, Create("/a"))
    path = next(tmp_path.iterdir())
    good = path.read_bytes()
    for garbage in (b"\x00" * 100, b"\xff" * 100, good[8:], b"x"):
        path.write_bytes(good + garbage)
        assert opened(tmp_path)[1].last_zxid == 1
        assert path.read_bytes()[: len(good)] == good


def test_a_long_journal_becomes_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_SNAPSHOT_AFTER_BYTES", 2_000)
    journal, tree = opened(tmp_path)
    write(journal, tree, Create("/counter"))
    taken = 0
    for number in range(200):
        write(journal, tree, SetData("/counter", str(number).encode()))
        taken += snapshot(journal, tree)
    assert taken > 3
    names = sorted(path.name.partition(".")[0] for path in tmp_path.iterdir())
    assert names == ["journal", "snapshot"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 4_000
    assert encode_snapshot(opened(tmp_path)[1]) == encode_snapshot(tree)


def test_a_short_journal_is_left_alone(tmp_path: Path) -> None:
    journal, tree = opened(tmp_path)
    write(journal, tree, Create("/a"))
    assert journal.begin_snapshot(tree) is None


def test_a_damaged_snapshot_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_SNAPSHOT_AFTER_BYTES", 1)
    journal, tree = opened(tmp_path)
    write(journal, tree, Create("/a"))
    assert snapshot(journal, tree)
    path = next(path for path in tmp_path.iterdir() if path.name.startswith("snapshot."))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StartupError, match="is damaged"):
        opened(tmp_path)


def test_one_flush_covers_everything_before_it(tmp_path: Path) -> None:
    journal, tree = opened(tmp_path)
    write(journal, tree, Create("/a"))
    write(journal, tree, Create("/b"))
    begun = journal.begin_flush()
    assert begun is not None
    write(journal, tree, Create("/c"))
    begun.run()
    journal.complete_flush(begun)
    assert 0 < journal.durable_position == begun.position < journal.position
    flush(journal)
    assert journal.durable_position == journal.position
    assert journal.begin_flush() is None


def test_after_a_crash_at_any_moment_the_tree_is_a_prefix_with_everything_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_SNAPSHOT_AFTER_BYTES", 300)
    files = CrashingFiles()
    journal, tree = opened(tmp_path / "disk", files)
    for number in range(1, 13):
        write(journal, tree, Create(f"/n{number}"))
        if number % 3 == 0:
            flush(journal)
            files.acknowledged = number
        if number % 4 == 0:
            snapshot(journal, tree)
    assert len(files.states) > 100
    for index, state in enumerate(files.states):
        directory = tmp_path / f"crash-{index}"
        state.write_to(directory)
        journal, recovered = opened(directory)
        numbers = sorted(int(path[2:]) for path in recovered.nodes if path.startswith("/n"))
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= state.acknowledged
        assert recovered.last_zxid == len(numbers)
        write(journal, recovered, Create("/next"))
        assert "/next" in opened(directory)[1].nodes


def test_a_crash_during_recovery_loses_nothing_either(tmp_path: Path) -> None:
    journal, tree = opened(tmp_path / "disk")
    for name in ("/a", "/b", "/c"):
        write(journal, tree, Create(name))
    path = next((tmp_path / "disk").iterdir())
    torn = path.read_bytes()[:-3]

    class Died(Exception):
        pass

    class DyingFiles(Files):
        def __init__(self, calls: int) -> None:
            self._calls = calls

        def __getattribute__(self, name: str) -> object:
            if name in ("open", "truncate", "fsync", "pwritev", "fsync_directory", "unlink"):
                self._calls -= 1
                if self._calls < 0:
                    raise Died
            return super().__getattribute__(name)

    for calls in range(8):
        path.write_bytes(torn)
        with contextlib.suppress(Died):
            opened(tmp_path / "disk", DyingFiles(calls))
        assert opened(tmp_path / "disk")[1].last_zxid == 2


def test_what_is_written_after_a_kill_does_not_rest_on_what_the_killed_one_had_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_SNAPSHOT_AFTER_BYTES", 1)
    files = CrashingFiles()
    journal, tree = opened(tmp_path / "live", files)
    flush(journal)
    write(journal, tree, Create("/unsynced"))
    assert journal.begin_snapshot(tree) is not None  # a new journal begins; neither the snapshot nor a flush comes to pass
    write(journal, tree, Create("/also-unsynced"))
    journal, tree = opened(tmp_path / "live", files)  # killed and started again: the page cache is as it was
    write(journal, tree, Create("/acknowledged"))
    flush(journal)
    files.acknowledged = 1
    files.open(tmp_path / "live" / "anything", create=True)  # the power may be cut from here on
    for number, state in enumerate([state for state in files.states if state.acknowledged]):
        state.write_to(tmp_path / str(number))
        assert "/acknowledged" in opened(tmp_path / str(number))[1].nodes
