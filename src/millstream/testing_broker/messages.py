"""Messages in and out of a broker that a test talks to, and how far a group is: what people write themselves in every project.

On our own connections, one per call: nothing stays open, nothing is committed, no thread is started. What did not happen in time is an
AssertionError that says what did, so that the test fails with it.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

from millstream.client.admin.topic_creation import creation_request
from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import READ_COMMITTED
from millstream.client.codecs.produce import BatchFor
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import kafka_error
from millstream.client.key_partition import key_partition
from millstream.client.retry import retry
from millstream.errors import InvalidTopic, KafkaError, UnknownTopicOrPartition
from millstream.offset import EARLIEST, LATEST
from millstream.paper.message import ConsumedMessage, Message
from millstream.paper.simple_consumer import SimpleConsumer
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey
from millstream.wire.records import Record, encode_batch

if TYPE_CHECKING:
    from millstream.wire.responses.offset_fetch import OffsetFetchResponse

_APPEARS_S: Final = 10.0
_PAUSE_S: Final = 0.01
_MOST_SHOWN: Final = 10


def create_topic(brokers: str, topic: str, *, partitions: int, options: Mapping[str, str]) -> None:
    """Create a topic and return when it can be used."""
    with Cluster(brokers) as cluster:
        [answer] = cluster.call(creation_request(topic, partitions=partitions, replicas=1, configs=options)).topics
        if answer.error_code:
            raise kafka_error(int(answer.error_code), f"the topic {topic!r} was not created: {answer.error_message or answer.error_code}")
        _await_topic(cluster, topic)


def produce(brokers: str, topic: str, messages: list[Message], *, partition: int | None, now_ms: int) -> None:
    """Write messages, in this order within each partition, and return when they are written."""
    with Cluster(brokers) as cluster:
        cluster.refresh([topic], create=True)
        _await_topic(cluster, topic)
        partitions = sorted(cluster.topic(topic).partitions)
        in_turn = cycle(partitions)
        by_partition: dict[int, list[Message]] = {}
        for message in messages:
            place = partition
            if place is None:
                place = next(in_turn) if message.key is None else key_partition(message.key, len(partitions))
            by_partition.setdefault(place, []).append(message)
        for place, some in by_partition.items():
            cluster.produce(BatchFor(topic, place, _encode(some, now_ms)))


def consume(brokers: str, topic: str, count: int, *, timeout_s: float) -> list[ConsumedMessage]:
    """All messages of a topic, partition after partition, as soon as there are at least so many."""
    found: dict[int, list[ConsumedMessage]] = {}
    with SimpleConsumer(brokers) as consumer:
        for _ in _tries(timeout_s):
            try:
                _read_on(consumer, topic, found)
                is_missing = False
            except UnknownTopicOrPartition:
                is_missing = True
            messages = [message for partition in sorted(found) for message in found[partition]]
            if len(messages) >= count:
                return messages
    if is_missing:
        raise AssertionError(f"there is no topic {topic!r} after {timeout_s:g} s; {_existing(brokers)}")
    shown = ", ".join(repr(message.payload) for message in messages[:_MOST_SHOWN])
    raise AssertionError(f"after {timeout_s:g} s {topic!r} has {len(messages)} of {count} messages: {shown or 'none'}")


def wait_for_lag(brokers: str, group: str, topic: str, *, max_lag: int, timeout_s: float) -> None:
    """Wait until a group has committed all messages of a topic but so many."""
    lags: dict[int, int] = {}
    committed: dict[TopicPartition, int] = {}
    with Cluster(brokers) as cluster, SimpleConsumer(brokers) as reader:
        partitions = [TopicPartition(topic, partition) for partition in sorted(cluster.topic(topic).partitions)]
        for _ in _tries(timeout_s):
            committed = _committed(cluster, group, partitions)
            lags = _lags(cluster, reader, partitions, committed)
            if sum(lags.values()) <= max_lag:
                return
    behind = ", ".join(f"partition {partition}: {lag}" for partition, lag in lags.items() if lag)
    hint = (
        ""
        if committed
        else "; it has committed nothing here (a group of the paper's consumer commits to ZooKeeper, which is not looked at)"
    )
    raise AssertionError(f"after {timeout_s:g} s the group {group!r} is {sum(lags.values())} messages behind in {topic!r} ({behind}){hint}")


def _encode(messages: list[Message], now_ms: int) -> bytes:
    times = [now_ms if message.timestamp_ms is None else message.timestamp_ms for message in messages]
    return encode_batch(
        Record(number, time, message.key, message.payload, tuple(message.headers))
        for number, (message, time) in enumerate(zip(messages, times, strict=True))
    )


def _await_topic(cluster: Cluster, topic: str) -> None:
    retry(lambda: cluster.topic(topic), timeout_s=_APPEARS_S, may_pass=_may_appear)


def _may_appear(error: Exception) -> bool:
    return isinstance(error, KafkaError) and not isinstance(error, InvalidTopic)


def _read_on(consumer: SimpleConsumer, topic: str, found: dict[int, list[ConsumedMessage]]) -> None:
    for partition in consumer.partitions(topic):
        messages = found.setdefault(partition, [])
        offset = messages[-1].offset + 1 if messages else consumer.earliest(topic, partition)
        while more := consumer.fetch(topic, partition, offset, max_wait_ms=0):
            messages.extend(more)
            offset = more[-1].offset + 1


def _committed(cluster: Cluster, group: str, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """What a group has committed; nothing as long as it has no coordinator."""
    topic = {"name": partitions[0].topic, "partition_indexes": [place.partition for place in partitions]}
    fields = {"groups": [{"group_id": group, "topics": [topic]}]}
    request: MessageRequest[OffsetFetchResponse] = MessageRequest(ApiKey.OFFSET_FETCH, fields, lowest=8, highest=9)
    return {
        TopicPartition(about.name, one.partition_index): one.committed_offset
        for answer in cluster.call(request).groups
        for about in answer.topics
        for one in about.partitions
        if one.committed_offset >= 0
    }


def _lags(
    cluster: Cluster, reader: SimpleConsumer, partitions: list[TopicPartition], committed: Mapping[TopicPartition, int]
) -> dict[int, int]:
    """By partition; none where only markers and aborted messages are left, which no commit of a message reaches."""
    starts, ends = (cluster.offsets(dict.fromkeys(partitions, end)) for end in (EARLIEST, LATEST))
    positions = {place: max(committed.get(place, 0), starts[place].offset) for place in partitions}
    lags = {place: ends[place].offset - positions[place] for place in partitions}
    behind = [place for place, lag in lags.items() if lag]
    stable = cluster.offsets(dict.fromkeys(behind, LATEST), isolation_level=READ_COMMITTED)
    for place in behind:
        is_open = stable[place].offset < ends[place].offset
        if not is_open and not reader.fetch(*place, positions[place], max_bytes=1, max_wait_ms=0):
            lags[place] = 0
    return {place.partition: lag for place, lag in lags.items()}


def _existing(brokers: str) -> str:
    with Cluster(brokers) as cluster:
        names = sorted(name for name in cluster.refresh().topics if not name.startswith("__"))
    return f"there are {', '.join(names[:_MOST_SHOWN])}" if names else "there are none"


def _tries(timeout_s: float, clock: Callable[[], float] = monotonic) -> Iterator[None]:
    """At least one, and then again and again until the time is over."""
    deadline = clock() + timeout_s
    yield
    while clock() < deadline:
        sleep(_PAUSE_S)
        yield
