from pathlib import Path

import pytest

from millstream.log.directories.directory import parse_directory_name
from millstream.processes.layout import Layout, has_processes


def test_layout_is_what_its_znode_says() -> None:
    for layout in (Layout.of_processes(3), Layout.alone(5)):
        assert Layout.decode(layout.encode()) == layout
    with pytest.raises(ValueError, match="processes"):
        Layout.decode(b'{"processes": 0}')


def test_home_of_a_broker_is_no_log() -> None:
    assert all(parse_directory_name(home) is None for home in Layout.of_processes(64).homes.values())


def test_several_processes_leave_directories(tmp_path: Path) -> None:
    assert not has_processes([tmp_path])
    (tmp_path / "process-1").mkdir()  # partition 1 of a topic of that name
    assert not has_processes([tmp_path])
    [home] = Layout.of_processes(2).paths([tmp_path], 1)
    home.mkdir()
    assert has_processes([tmp_path / "other", tmp_path])


def test_a_disk_that_does_not_answer_is_no_reason_not_to_look_at_the_others(tmp_path: Path) -> None:
    dead = tmp_path / ("no name is so long" * 20)
    assert not has_processes([dead, tmp_path])
    (tmp_path / "process.1").mkdir()
    assert has_processes([dead, tmp_path])
