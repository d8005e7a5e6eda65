import uuid
from pathlib import Path

import pytest

from millstream.files import Files
from millstream.log.directories.checkpoints import (
    PARTITION_METADATA,
    id_from_text,
    id_to_text,
    read_checkpoint,
    read_topic_id,
    render_partition_metadata,
    write_checkpoint,
)
from millstream.topic_partition import TopicPartition

TOPIC_ID = uuid.UUID("a48caa2c-9f31-4d1a-90a1-9d2304e48b5a")


def test_file_is_kafkas(tmp_path: Path) -> None:
    write_checkpoint(Files(), tmp_path / "c", {TopicPartition("orders", 1): 99, TopicPartition("orders", 0): 1517})
    assert (tmp_path / "c").read_bytes() == b"0\n2\norders 0 1517\norders 1 99\n"


def test_what_was_written_is_read(tmp_path: Path) -> None:
    offsets = {TopicPartition("a.b-c_d", 0): 0, TopicPartition("a", 10): 2**62}
    write_checkpoint(Files(), tmp_path / "c", offsets)
    assert read_checkpoint(Files(), tmp_path / "c") == offsets


@pytest.mark.parametrize(
    "content", [None, b"", b"0\n", b"7\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na b c\n", b"\xff\xfe\n", b"0\nx\n"]
)
def test_missing_or_damaged_file_reads_as_empty(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "c").write_bytes(content)
    assert read_checkpoint(Files(), tmp_path / "c") == {}


def test_partition_metadata_is_kafkas(tmp_path: Path) -> None:
    assert render_partition_metadata(TOPIC_ID) == b"version: 0\ntopic_id: pIyqLJ8xTRqQoZ0jBOSLWg\n"
    (tmp_path / PARTITION_METADATA).write_bytes(render_partition_metadata(TOPIC_ID))
    assert read_topic_id(Files(), tmp_path) == TOPIC_ID


def test_ids_are_written_as_kafka_prints_them() -> None:
    assert id_from_text(id_to_text(TOPIC_ID)) == TOPIC_ID
    assert len(id_to_text(TOPIC_ID)) == 22


@pytest.mark.parametrize(
    "content", [None, b"", b"version: 1\ntopic_id: pIyqLJ8xTRqQoZ0jBOSLWg\n", b"version: 0\n", b"version: 0\ntopic_id: x\n", b"\x00" * 44]
)
def test_partition_metadata_that_was_not_written_completely_has_no_id(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / PARTITION_METADATA).write_bytes(content)
    assert read_topic_id(Files(), tmp_path) is None
