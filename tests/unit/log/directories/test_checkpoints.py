from pathlib import Path

import pytest

from millstream.files import Files
from millstream.log.directories.checkpoints import read_checkpoint, write_checkpoint


def test_file_is_kafkas(tmp_path: Path) -> None:
    write_checkpoint(Files(), tmp_path / "c", {("orders", 1): 99, ("orders", 0): 1517})
    assert (tmp_path / "c").read_bytes() == b"0\n2\norders 0 1517\norders 1 99\n"


def test_what_was_written_is_read(tmp_path: Path) -> None:
    offsets = {("a.b-c_d", 0): 0, ("a", 10): 2**62}
    write_checkpoint(Files(), tmp_path / "c", offsets)
    assert read_checkpoint(Files(), tmp_path / "c") == offsets


@pytest.mark.parametrize(
    "content", [None, b"", b"0\n", b"7\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na b c\n", b"\xff\xfe\n", b"0\nx\n"]
)
def test_missing_or_damaged_file_reads_as_empty(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "c").write_bytes(content)
    assert read_checkpoint(Files(), tmp_path / "c") == {}
