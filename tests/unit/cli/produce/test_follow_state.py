from pathlib import Path

import pytest

from millstream.cli.produce.follow_state import default_state_file, locked, read_state, write_state
from millstream.cli.produce.followed_file import FilePlace
from millstream.errors import CommandFailed

PLACES = {"/var/log/a.log": [FilePlace(1, 2, 300, b"\x00head"), FilePlace(1, 3, 0, b"")], "/b": []}


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert read_state(path, "clicks") == {}
    write_state(path, "clicks", PLACES)
    write_state(path, "clicks", PLACES)
    assert read_state(path, "clicks") == PLACES
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"topic": "clicks"}', '{"topic": "clicks", "files": {"a": [{"inode": 1}]}}'])
def test_a_damaged_state_is_not_taken_for_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(content)
    with pytest.raises(CommandFailed, match=r"is damaged .* delete it"):
        read_state(path, "clicks")


def test_the_state_of_another_topic_is_refused(tmp_path: Path) -> None:
    write_state(tmp_path / "state.json", "clicks", PLACES)
    with pytest.raises(CommandFailed, match="about the topic 'clicks'"):
        read_state(tmp_path / "state.json", "views")


def test_one_process_has_it_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state.json"
    with locked(path), pytest.raises(CommandFailed, match=r"Another .* --state"), locked(path):
        pass
    with locked(path):
        pass


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CommandFailed, match="choose another with --state"), locked(tmp_path / "file" / "state.json"):
        pass


def test_the_file_is_in_the_directory_for_state() -> None:
    assert default_state_file({"XDG_STATE_HOME": "/s"}, cluster_id="c", topic="t") == Path("/s/millstream/follow-t-c.json")
    assert default_state_file({}, cluster_id="c", topic="t").parent == Path.home() / ".local/state/millstream"
