import pytest

from millstream.client.codecs.list_offsets import OffsetAndTime, list_offsets_request, read_list_offsets
from millstream.offset import EARLIEST, MAX_TIMESTAMP
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey
from millstream.wire.messages import decode_response, encode_response

FIRST, SECOND = TopicPartition("clicks", 0), TopicPartition("clicks", 1)


def test_partitions_of_a_topic_are_asked_for_together() -> None:
    request = list_offsets_request({FIRST: EARLIEST, SECOND: 5}, isolation_level=1)
    partitions = [{"partition_index": 0, "timestamp": -2}, {"partition_index": 1, "timestamp": 5}]
    assert request.fields["topics"] == [{"name": "clicks", "partitions": partitions}]
    assert request.versions == (2, 8)


def test_the_largest_timestamp_needs_a_broker_that_knows_it() -> None:
    assert list_offsets_request({FIRST: MAX_TIMESTAMP}, isolation_level=0).versions == (7, 8)


@pytest.mark.parametrize("version", [2, 4, 7, 8])
def test_each_partition_is_read_with_its_error(version: int) -> None:
    found = {"partition_index": 0, "error_code": 0, "timestamp": 1_700_000_000_123, "offset": 42, "leader_epoch": 3}
    missing = {"partition_index": 1, "error_code": 3, "timestamp": -1, "offset": -1, "leader_epoch": -1}
    reply = {"throttle_time_ms": 0, "topics": [{"name": "clicks", "partitions": [found, missing]}]}
    frame = encode_response(ApiKey.LIST_OFFSETS, version, correlation_id=1, reply=reply)
    read = list(read_list_offsets(decode_response(ApiKey.LIST_OFFSETS, version, body=frame, start=9 if version >= 6 else 8)))
    epoch = 3 if version >= 4 else -1
    assert read == [(FIRST, 0, OffsetAndTime(42, 1_700_000_000_123, epoch)), (SECOND, 3, OffsetAndTime(-1, -1, -1))]
