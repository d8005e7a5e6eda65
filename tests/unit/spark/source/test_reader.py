"""What Spark keeps of a stream comes back as it was, and the first end has where the query began."""

import json

from millstream.spark.source.reader import NOT_BEGUN, StreamOffset, format_stream_offset, read_stream_offset
from millstream.topic_partition import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b.began", 11)


def kept(offset: dict[str, object]) -> dict[str, dict[str, int]]:
    """As Spark gives it back."""
    found: dict[str, dict[str, int]] = json.loads(json.dumps(offset))
    return found


def test_an_offset_comes_back() -> None:
    assert read_stream_offset(kept(format_stream_offset({B: 3, A: 5}))) == StreamOffset({A: 5, B: 3})


def test_the_first_end_has_where_the_query_began() -> None:
    offset = format_stream_offset({A: 5, B: 3}, began_at={B: 3, A: 2})
    assert offset == {"a": {"0": 5}, "b.began": {"11": 3}, "began at": {}, "a began at": {"0": 2}, "b.began began at": {"11": 3}}
    assert read_stream_offset(kept(offset)) == StreamOffset({A: 5, B: 3}, {A: 2, B: 3})


def test_a_query_that_began_without_partitions_has_begun() -> None:
    offset = format_stream_offset({}, began_at={})
    assert read_stream_offset(kept(offset)) == StreamOffset({}, {})
    assert offset != NOT_BEGUN != format_stream_offset({})
