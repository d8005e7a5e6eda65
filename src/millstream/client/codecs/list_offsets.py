"""ListOffsets: which offset does a partition begin at, end at, or have at a point in time? Many partitions of one leader in one request."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.client.codecs.request import MessageRequest
from millstream.offset import MAX_TIMESTAMP
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.responses.list_offsets import ListOffsetsResponse

_CONSUMER: Final = -1
_FIRST_WITH_ISOLATION: Final = 2
_FIRST_WITH_MAX_TIMESTAMP: Final = 7
_NEWEST: Final = 8


class OffsetAndTime(NamedTuple):
    """An offset and the time of the record there. Both are -1 if no record is that new; the time is -1 for an end of the log."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


def list_offsets_request(wanted: Mapping[TopicPartition, int], *, isolation_level: int) -> "MessageRequest[ListOffsetsResponse]":
    """Ask for the first record at or after a time in ms, or one of `millstream.offset`, of partitions with the same leader."""
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


def read_list_offsets(answer: "ListOffsetsResponse") -> Iterator[tuple[TopicPartition, int, OffsetAndTime]]:
    """Each partition of the answer with its error code and what was found."""
    for topic in answer.topics:
        for partition in topic.partitions:
            found = OffsetAndTime(partition.offset, partition.timestamp, partition.leader_epoch)
            yield TopicPartition(topic.name, partition.partition_index), partition.error_code, found
