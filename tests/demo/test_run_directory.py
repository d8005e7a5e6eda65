"""The directory of a run."""

from pathlib import Path

import pytest

from demo.run_directory import open_run_directory
from millstream.errors import UsageError


def test_a_directory_of_a_former_run_is_emptied(tmp_path: Path) -> None:
    with open_run_directory(tmp_path / "run") as directory:
        (directory / "lake").mkdir()
        (directory / "lake" / "file").touch()
        (directory / "picture.html").touch()
    with open_run_directory(tmp_path / "run") as directory:
        assert [path.name for path in directory.iterdir()] == [".millstream-demo"]


def test_a_directory_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(UsageError, match="no demo has made"), open_run_directory(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    with pytest.raises(UsageError, match="not a directory"), open_run_directory(tmp_path / "precious"):
        pass


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(UsageError, match=r"cannot be used: Not a directory\. Name another place"),
        open_run_directory(tmp_path / "file" / "run"),
    ):
        pass


def test_two_runs_do_not_share_a_directory(tmp_path: Path) -> None:
    with open_run_directory(tmp_path) as directory:
        (directory / "data").touch()
        with pytest.raises(UsageError, match="another demo"), open_run_directory(tmp_path):
            pass
        assert (directory / "data").exists()
