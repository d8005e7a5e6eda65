import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from millstream.errors import StartupError
from millstream.log.directories.directory import CLEAN_SHUTDOWN
from millstream.log.directories.known_directories import FILE_NAME, ZOOKEEPER, FoundDirectories, KnownDirectories, check, newest, renewed
from millstream.log.directories.manager import LogManager
from tests.manual_clock import ManualClock

BOTH = KnownDirectories(3, {"A": "/one", "B": "/two"}, "A")


def found(*, dead: Sequence[str] = (), empty: Sequence[str] = (), absent: Sequence[str] = (), **present: str) -> FoundDirectories:
    paths = {identifier: Path(path) for identifier, path in present.items()}
    return FoundDirectories(paths, [Path(path) for path in dead], [Path(path) for path in empty], [Path(path) for path in absent])


def refusal(known: KnownDirectories, at_hand: FoundDirectories, *, forgotten: Collection[str] = ()) -> str:
    with pytest.raises(StartupError) as refused:
        check(known, at_hand, forgotten=forgotten)
    return str(refused.value)


@pytest.mark.parametrize(
    "present",
    [{"A": "/one", "B": "/two"}, {"B": "/one", "A": "/two"}, {"A": "/elsewhere", "B": "/two"}, {"A": "/one", "B": "/two", "C": "/new"}],
    ids=["as before", "swapped", "moved", "one more"],
)
def test_a_directory_is_known_by_its_id_wherever_it_is(present: Mapping[str, str]) -> None:
    check(BOTH, found(**present), forgotten=())


@pytest.mark.parametrize(
    ("at_hand", "state"),
    [
        (found(A="/one"), "was left out"),
        (found(A="/one", X="/two", absent=["/two"]), "does not exist"),
        (found(A="/one", X="/two", empty=["/two"]), "is empty"),
        (found(A="/one", X="/two"), "is another directory now"),
        (found(A="/two"), "is another directory now"),
    ],
)
def test_a_missing_directory_is_refused_with_its_id_its_place_and_what_to_do(at_hand: FoundDirectories, state: str) -> None:
    refused = refusal(BOTH, at_hand)
    assert f"/two (directory.id B) {state}" in refused
    assert "--forget-directory=B" in refused
    assert "no topic is known" not in refused
    assert "--node-id" not in refused


def test_the_directory_with_the_tree_is_refused_as_such() -> None:
    assert "no topic is known" in refusal(BOTH, found(B="/two"))


def test_a_broker_that_has_nothing_of_what_is_known_may_be_another_one() -> None:
    assert "give it another --node-id" in refusal(BOTH, found(X="/three", absent=["/three"]))


@pytest.mark.parametrize("path", ["/two", "/under/another/path"])
def test_a_dead_disk_stands_for_a_missing_directory(path: str) -> None:
    check(BOTH, found(A="/one", dead=[path]), forgotten=())
    assert renewed(BOTH, found(A="/one", dead=[path]), tree="A", is_changed=False) == BOTH


def test_a_dead_disk_stands_for_one_directory_and_first_for_its_own() -> None:
    three = KnownDirectories(3, {"A": "/one", "B": "/two", "C": "/three"}, "A")
    assert "directory.id B" in (refused := refusal(three, found(A="/one", dead=["/three"])))
    assert "directory.id C" not in refused


def test_what_was_given_up_is_not_missed_and_not_remembered() -> None:
    check(BOTH, found(A="/one"), forgotten=["B", "never heard of"])
    kept = BOTH.without(["B"])
    assert renewed(kept, found(A="/one"), tree="A", is_changed=True) == KnownDirectories(4, {"A": "/one"}, "A")


@pytest.mark.parametrize("at_hand", [found(A="/one", B="/two"), found(A="/one", dead=["/two"])])
def test_what_is_given_up_must_not_be_given(at_hand: FoundDirectories) -> None:
    assert "--forget-directory=B gives up /two" in refusal(BOTH, at_hand, forgotten=["B"])


def test_the_youngest_record_wins_and_equals_are_taken_together() -> None:
    young = KnownDirectories(4, {"A": "/one"}, "A")
    assert newest([BOTH, young]) == newest([young, BOTH]) == young
    apart = newest([young, KnownDirectories(4, {"B": "/two"}, "B")])
    assert (apart.generation, dict(apart.paths), apart.tree) == (4, {"A": "/one", "B": "/two"}, "A")


def test_nothing_is_written_anew_where_nothing_changed() -> None:
    assert renewed(BOTH, found(A="/one", B="/two"), tree="A", is_changed=False) is BOTH
    assert renewed(BOTH, found(A="/one", B="/new"), tree="A", is_changed=False).generation == 4


@pytest.mark.parametrize(
    ("nonsense", "reason"),
    [
        (b"", "must be JSON"),
        (b"[]", "it must be a JSON object"),
        (b'{"generation": "1", "tree": "", "directories": {}}', "generation must be a whole number"),
        (b'{"generation": 1, "directories": {}}', "tree is missing"),
        (b'{"generation": 1, "tree": "", "directories": {"A": 1}}', "'A' in directories must be a text"),
    ],
)
def test_a_record_comes_back_and_nonsense_is_refused(nonsense: bytes, reason: str) -> None:
    assert KnownDirectories.decode(BOTH.encode()) == BOTH
    with pytest.raises(ValueError, match=reason):
        KnownDirectories.decode(nonsense)


def started(*paths: Path, forgotten: Collection[str] = ()) -> LogManager:
    manager = LogManager(paths, clock=ManualClock())
    manager.start(node_id=1, cluster_id="abc", forgotten=forgotten)
    return manager


def ended(manager: LogManager) -> KnownDirectories:
    known = manager.remember(tree=ZOOKEEPER)
    manager.close()
    return known


def test_every_directory_remembers_the_others(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    known = ended(started(one, two))
    assert set(known.paths.values()) == {str(one), str(two)}
    assert [KnownDirectories.decode((path / FILE_NAME).read_bytes()) for path in (one, two)] == [known, known]
    for path in (one, two):
        with pytest.raises(StartupError, match="was left out"):
            started(path)
    assert ended(started(two, one)) == known


def test_a_directory_whose_name_is_no_text_is_remembered_and_missed_too(tmp_path: Path) -> None:
    one, two = tmp_path / "one", Path(os.fsdecode(os.fsencode(tmp_path) + b"/two\xff"))
    known = ended(started(one, two))
    assert set(known.paths.values()) == {str(one), rf"{tmp_path}/two\xff"}
    with pytest.raises(StartupError, match=r"two\\xff .* was left out"):
        started(one)
    assert ended(started(one, two)) == known


def test_what_others_remember_is_missed_too(tmp_path: Path) -> None:
    manager = started(tmp_path / "one")
    with pytest.raises(StartupError, match="/two"):
        manager.recall(KnownDirectories(1, {"B": "/two"}, ZOOKEEPER))
    manager.recall(KnownDirectories())


def test_a_copied_directory_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    ended(started(tmp_path / "one"))
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    with pytest.raises(StartupError, match=r"have the same directory\.id .*: one is a copy of the other"):
        started(tmp_path / "one", tmp_path / "copy")
    assert (tmp_path / "one" / CLEAN_SHUTDOWN).exists()
    assert ended(started(tmp_path / "copy")).generation == 2


@pytest.mark.parametrize("damage", [("node.id=1", "node.id=7"), ("cluster.id=abc", "cluster.id=other")])
def test_a_refused_start_leaves_every_directory_as_cleanly_stopped_as_it_was(tmp_path: Path, damage: tuple[str, str]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    ended(started(one, two))
    markers = [(path / CLEAN_SHUTDOWN).read_bytes() for path in (one, two)]
    meta = two / "meta.properties"
    meta.write_text(meta.read_text().replace(*damage))
    with pytest.raises(StartupError, match=r"two belongs to"):
        started(one, two)
    assert [(path / CLEAN_SHUTDOWN).read_bytes() for path in (one, two)] == markers


def test_when_everything_is_gone_nothing_is_missed(tmp_path: Path) -> None:
    ended(started(tmp_path / "one", tmp_path / "two"))
    shutil.rmtree(tmp_path / "one")
    shutil.rmtree(tmp_path / "two")
    assert ended(started(tmp_path / "one")).generation == 1


def test_a_stop_was_not_clean_if_a_directory_is_given_up_after_it(tmp_path: Path) -> None:
    """Or else the broker would stay in sync, and might lead, with the partitions of that directory empty."""
    one, two = tmp_path / "one", tmp_path / "two"
    manager = started(one, two)
    known = manager.remember(tree=ZOOKEEPER)
    manager.close(broker_epoch=9)
    lost = next(identifier for identifier, path in known.paths.items() if path == str(two))
    shutil.rmtree(two)
    first = started(one, forgotten=[lost])
    assert first.previous_broker_epoch == -1
    first.remember(tree=ZOOKEEPER)
    first.leave_as_found()
    second = started(one, forgotten=[lost])
    assert second.previous_broker_epoch == -1, "neither after a start that came to nothing"
    second.close(broker_epoch=10)
    assert started(one, forgotten=[lost]).previous_broker_epoch == 10, "the flag may stay in a script"


def test_a_directory_that_was_away_does_not_bring_back_what_was_given_up(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    known = ended(started(one, two, three))
    ids = {path: identifier for identifier, path in known.paths.items()}
    three.rename(tmp_path / "dead")
    three.write_text("a disk that does not answer")
    ended(started(one, three, forgotten=[ids[str(two)]]))
    three.unlink()
    (tmp_path / "dead").rename(three)
    assert set(ended(started(one, three)).paths.values()) == {str(one), str(three)}


def test_a_record_that_makes_no_sense_is_refused_and_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ended(started(tmp_path))
    (tmp_path / FILE_NAME).write_bytes(b"{")
    ended(started(tmp_path))
    assert str(tmp_path / FILE_NAME) in caplog.text
