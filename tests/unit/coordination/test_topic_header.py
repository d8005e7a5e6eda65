"""What the znode of a topic says."""

import json
from uuid import UUID

import pytest

from millstream.coordination.topic_header import CREATING, TopicHeader

HEADER = TopicHeader(UUID(int=7), {"retention.ms": "5"}, 3, CREATING)


def test_it_is_read_as_it_was_written() -> None:
    assert TopicHeader.decode("orders", HEADER.encode()) == HEADER


def test_it_is_as_documented() -> None:
    content = {"topic_id": "00000000-0000-0000-0000-000000000007", "configs": {"retention.ms": "5"}, "partitions": 3, "phase": "creating"}
    assert json.loads(HEADER.encode()) == content


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("topic_id", "7", "UUID"),
        ("topic_id", str(UUID(int=0)), "topic_id must be an id"),
        ("configs", {"retention.ms": 5}, "configs"),
        ("partitions", 0, "partitions must be"),
        ("partitions", [], "partitions must be"),
        ("phase", "begun", "phase must be one of"),
        ("phase", None, "phase must be"),
    ],
)
def test_what_we_would_not_have_written_is_refused(field: str, value: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        TopicHeader.decode("orders", json.dumps({**json.loads(HEADER.encode()), field: value}).encode())
    with pytest.raises(ValueError, match="only ASCII"):
        TopicHeader.decode("or ders", HEADER.encode())
