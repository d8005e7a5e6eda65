"""ListOffsets: which offset does a partition begin at, end at, or have at a point in time? Many partitions of one leader in one request."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from millstream.client.request import MessageRequest
from millstream.offset import MAX_TIMESTAMP
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey

_CONSUMER: Final = -1
_FIRST_WITH_ISOLATION: Final = 2
_FIRST_WITH_MAX_TIMESTAMP: Final = 7
_NEWEST: Final = 8


class OffsetAndTime(NamedTuple):
    """An offset and the time of the record there. Both are -1 if no record is that new; the time is -1 for an end of the log."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


def list_offsets_request(wanted: Mapping[TopicPartition, int], *, isolation_level: int) -> MessageRequest:
    """Ask for the first record at or after a time in ms, or for one of the constants above, of partitions with the same leader."""
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, partition), timestamp in wanted.items():
        topics.setdefault(topic, []).append({"partition_index": partition, "timestamp": timestamp})
    fields = {
        "replica_id": _CONSUMER,
        "isolation_level": isolation_level,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }
    lowest = _FIRST_WITH_MAX_TIMESTAMP if MAX_TIMESTAMP in wanted.values() else _FIRST_WITH_ISOLATION
    return MessageRequest(ApiKey.LIST_OFFSETS, fields, lowest=lowest, highest=_NEWEST)


def read_list_offsets(answer: Any) -> Iterator[tuple[TopicPartition, int, OffsetAndTime]]:
    """Each partition of the answer with its error code and what was found."""
    for topic in answer.topics:
        for partition in topic.partitions:
            found = OffsetAndTime(int(partition.offset), int(partition.timestamp), int(getattr(partition, "leader_epoch", -1)))
            yield TopicPartition(topic.name, int(partition.partition_index)), int(partition.error_code), found
