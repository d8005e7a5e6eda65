import uuid
from pathlib import Path

import pytest

from millstream.files import Files
from millstream.log.directories.partition_metadata import FILE_NAME, id_from_text, id_to_text, read_topic_id, render

TOPIC_ID = uuid.UUID("a48caa2c-9f31-4d1a-90a1-9d2304e48b5a")


def test_file_is_kafkas(tmp_path: Path) -> None:
    assert render(TOPIC_ID) == b"version: 0\ntopic_id: pIyqLJ8xTRqQoZ0jBOSLWg\n"
    (tmp_path / FILE_NAME).write_bytes(render(TOPIC_ID))
    assert read_topic_id(Files(), tmp_path) == TOPIC_ID


def test_ids_are_written_as_kafka_prints_them() -> None:
    assert id_from_text(id_to_text(TOPIC_ID)) == TOPIC_ID
    assert len(id_to_text(TOPIC_ID)) == 22


@pytest.mark.parametrize(
    "content", [None, b"", b"version: 1\ntopic_id: pIyqLJ8xTRqQoZ0jBOSLWg\n", b"version: 0\n", b"version: 0\ntopic_id: x\n", b"\x00" * 44]
)
def test_file_that_was_not_written_completely_tells_no_id(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / FILE_NAME).write_bytes(content)
    assert read_topic_id(Files(), tmp_path) is None
