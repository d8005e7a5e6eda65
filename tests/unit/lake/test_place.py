from pathlib import Path

import pytest

from millstream.lake.errors import LakeRefused
from millstream.lake.place import open_place, raise_unwritable


def test_a_place_where_nothing_can_be_written_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "lake").touch()
    with pytest.raises(NotADirectoryError) as failed:
        open_place(f"{tmp_path}/lake/clicks").make_directory("event_date=2026-05-04")
    with pytest.raises(LakeRefused, match=r"files of here cannot be written: .* Give the load a directory that it may write to"):
        raise_unwritable(failed.value, "here")
    raise_unwritable(ConnectionResetError("a broker went away"), "here")
