"""The simple consumer: for those who keep offsets themselves. A pull request names an offset and how many bytes are acceptable.

    with SimpleConsumer("localhost:9092") as simple:
        messages = simple.fetch("clicks", 0, offset=0, max_bytes=300_000)     # a list; empty when there is nothing at that offset yet
        next_offset = messages[-1].offset + 1

        pulls = [simple.pull("clicks", partition, offset=0) for partition in range(4)]     # asynchronous: all are under way
        for pull in pulls:
            handle(pull.messages())

It runs on our own connections, because librdkafka has no such call. `fetch` finds a leader that has moved; a `pull` raises, and is made
anew. A fetch takes `max_bytes` and at least one batch of messages, however large. Messages of transactions that are open or were aborted
are left out, unless `isolation="read_uncommitted"` is chosen; the markers of transactions always are. They have offsets, too: `fetch` goes
on behind them, a `pull` says where to go on (`next_offset`), also if it found nothing. One thread at a time.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple, Self

from millstream.client.cluster import Cluster
from millstream.client.codecs.aborted_batches import AbortedBatches
from millstream.client.codecs.fetch import READ_COMMITTED, READ_UNCOMMITTED, FetchAnswer, FetchedPartition, FetchFrom, FetchRequest
from millstream.client.connection import CLIENT_ID, TIMEOUT_S, Connection, OpenSocket, open_tcp
from millstream.client.conversation import Pending
from millstream.client.errors import kafka_error
from millstream.client.security.client_security import NO_SECURITY, ClientSecurity
from millstream.offset import EARLIEST, LATEST
from millstream.paper.message import ConsumedMessage, Headers, milliseconds_of
from millstream.paper.settings import Isolation, check_isolation
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import split_batches
from millstream.wire.records import Record, decode_records

MAX_BYTES: Final = 1 << 20
MAX_WAIT_MS: Final = 500


class SimpleConsumer:
    """Pulls from any offset of any partition, of which it remembers nothing."""

    def __init__(
        self,
        brokers: str | Iterable[str],
        *,
        client_id: str = CLIENT_ID,
        timeout_s: float = TIMEOUT_S,
        isolation: Isolation = "read_committed",
        security: ClientSecurity = NO_SECURITY,
        open_socket: OpenSocket = open_tcp,
    ) -> None:
        check_isolation(isolation)
        self._isolation = READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED
        self._cluster = Cluster(brokers, client_id=client_id, timeout_s=timeout_s, security=security, open_socket=open_socket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic."""
        return list(self._cluster.topic(topic).partitions)

    def earliest(self, topic: str, partition: int) -> int:
        """The smallest offset that can be read."""
        return self._offset(topic, partition, EARLIEST)

    def latest(self, topic: str, partition: int) -> int:
        """The offset that the next message will have; of committed ones, that of the first that is not decided yet."""
        return self._offset(topic, partition, LATEST)

    def offset_at(self, topic: str, partition: int, moment: datetime | int) -> int | None:
        """The offset of the first message sent at that time or later; None if there is none."""
        offset = self._offset(topic, partition, milliseconds_of(moment))
        return None if offset < 0 else offset

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int = MAX_BYTES, *, max_wait_ms: int = MAX_WAIT_MS
    ) -> list[ConsumedMessage]:
        """The messages from `offset` on; waits up to `max_wait_ms` for the first of them."""
        while True:
            fetched = self._cluster.fetch(
                FetchFrom(topic, partition, offset, max_bytes), max_wait_ms=max_wait_ms, isolation_level=self._isolation
            )
            messages, next_offset = _messages(fetched, offset)
            if messages or next_offset == offset:
                return messages
            offset = next_offset

    def pull(self, topic: str, partition: int, offset: int, max_bytes: int = MAX_BYTES, *, max_wait_ms: int = MAX_WAIT_MS) -> "Pull":
        """Ask for messages without waiting for them; several pulls may be under way, and are answered in their order."""
        connection = self._cluster.connection(self._cluster.leader(topic, partition))
        request = FetchRequest([FetchFrom(topic, partition, offset, max_bytes)], max_wait_ms, isolation_level=self._isolation)
        return Pull(connection, connection.send(request), offset)

    def _offset(self, topic: str, partition: int, timestamp: int) -> int:
        wanted = TopicPartition(topic, partition)
        return self._cluster.offsets({wanted: timestamp}, isolation_level=self._isolation)[wanted].offset


class Pull:
    """A pull request that is under way."""

    __slots__ = ("_connection", "_offset", "_pending", "next_offset")

    def __init__(self, connection: Connection, pending: Pending[FetchAnswer], offset: int) -> None:
        self._connection = connection
        self._pending = pending
        self._offset = offset
        self.next_offset = offset
        """Where to go on, once the messages are there."""

    def messages(self) -> list[ConsumedMessage]:
        """Wait for the answer."""
        answer = self._connection.receive(self._pending)
        for error_code in (answer.error_code, *(partition.error_code for partition in answer.partitions)):
            if error_code:
                raise kafka_error(error_code)
        [partition] = answer.partitions
        messages, self.next_offset = _messages(partition, self._offset)
        return messages


class _PulledRecord(NamedTuple):
    """A record with the questions that librdkafka's messages answer, so that both are one kind of `ConsumedMessage`."""

    place: TopicPartition
    content: Record

    def topic(self) -> str:
        """The topic."""
        return self.place.topic

    def partition(self) -> int:
        """The partition."""
        return self.place.partition

    def offset(self) -> int:
        """The offset."""
        return self.content.offset

    def key(self) -> bytes | None:
        """The key."""
        return self.content.key

    def timestamp(self) -> tuple[int, int]:
        """The kind of timestamp, which is not asked for here, and the timestamp."""
        return 0, self.content.timestamp

    def headers(self) -> Headers:
        """The headers."""
        return self.content.headers


def _messages(fetched: FetchedPartition, offset: int) -> tuple[list[ConsumedMessage], int]:
    """The messages, and where to go on. A fetch answers with whole batches, so the first one may begin before the offset."""
    place = fetched.topic_partition
    aborted = AbortedBatches(fetched.aborted_transactions or ())
    messages: list[ConsumedMessage] = []
    next_offset = offset
    for header, batch in split_batches(fetched.records):
        next_offset = max(next_offset, header.next_offset)
        if aborted.is_visible(header, batch):
            records = (record for record in decode_records(batch) if record.offset >= offset)
            messages.extend(ConsumedMessage(record.value, _PulledRecord(place, record)) for record in records)
    return messages, next_offset
