"""Batches of an idempotent producer against a model of a broker that loses requests and answers: each record is written once, in order."""

from collections import deque

from hypothesis import event, given, settings
from hypothesis import strategies as st

from millstream.client.partition_queue import LAST_SEQUENCE, PartitionQueue, QueuedBatch, Verdict
from millstream.errors import (
    DuplicateSequenceNumber,
    MessageTooLarge,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
)
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import read_header
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, decode_records, encode_batch

PLACE = TopicPartition("orders", 0)
BROKER_REMEMBERS = 5
MAX_STEPS = 3_000


class ModelLog:
    """A partition's log with Kafka's rules for sequences: the first batch of a producer may have any."""

    def __init__(self, max_bytes: int) -> None:
        self.values: list[bytes | None] = []
        self._next: int | None = None
        self._max_bytes = max_bytes
        self._recent: deque[tuple[int, int]] = deque(maxlen=BROKER_REMEMBERS)

    def append(self, content: bytes) -> int:
        header = read_header(content)
        if len(content) > self._max_bytes and header.record_count > 1:
            return MessageTooLarge.code
        if (header.base_sequence, header.record_count) in self._recent:
            return 0
        expected = header.base_sequence if self._next is None else self._next
        behind = (expected - header.base_sequence) & LAST_SEQUENCE
        if 0 < behind <= LAST_SEQUENCE // 2:
            return DuplicateSequenceNumber.code
        if header.base_sequence != expected:
            return OutOfOrderSequenceNumber.code
        self.values += [record.value for record in decode_records(content)]
        self._next = (expected + header.record_count) & LAST_SEQUENCE
        self._recent.append((header.base_sequence, header.record_count))
        return 0


def make_batches(queue: PartitionQueue, sizes: list[int], codec: Codec) -> list[bytes]:
    """Queue batches of so many records each; returns all their values."""
    values: list[bytes] = []
    for size in sizes:
        sequence = queue.take_sequence(size)
        records = [Record(index, 5, b"k", b"%d" % (len(values) + index)) for index in range(size)]
        values += [record.value or b"" for record in records]
        content = encode_batch(records, codec=codec, producer=ProducerStamp(9, 0, sequence))
        queue.batches.append(QueuedBatch(PLACE, content, record_count=size, unpacked_bytes=len(content), deadline=1e9))
    return values


@settings(max_examples=200)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=25),
    first_sequence=st.sampled_from([0, 7, LAST_SEQUENCE - 20]),
    max_bytes=st.sampled_from([120, 200, 10_000]),
    codec=st.sampled_from([Codec.NONE, Codec.ZSTD]),
    faults=st.lists(st.sampled_from(["none", "none", "lost request", "lost answer", "moved", "after append", "broken"]), max_size=60),
)
def test_each_record_is_written_once_and_in_order(
    sizes: list[int], first_sequence: int, max_bytes: int, codec: Codec, faults: list[str]
) -> None:
    queue = PartitionQueue()
    queue.take_sequence(first_sequence)
    log = ModelLog(max_bytes)
    expected = make_batches(queue, sizes, codec)
    in_flight: deque[QueuedBatch] = deque()
    troubles = iter(faults)
    now = 0.0
    for _ in range(MAX_STEPS):
        if not queue.batches:
            break
        now += 1
        batch = queue.next_to_send(now) if len(in_flight) < BROKER_REMEMBERS else None
        if batch is not None:
            queue.sent(batch)
            in_flight.append(batch)
            continue
        if in_flight:
            answer(queue, log, in_flight, next(troubles, "none"), now)
    assert not queue.batches
    assert log.values == expected


def answer(queue: PartitionQueue, log: ModelLog, in_flight: deque[QueuedBatch], trouble: str, now: float) -> None:
    """The oldest batch reaches the broker, or does not, and its answer comes back, or does not."""
    batch = in_flight.popleft()
    event(trouble)
    if trouble == "broken":  # the connection ends: those behind it were on it, and the broker may have read some of them
        for index, lost in enumerate([batch, *in_flight]):
            if index % 2 == 0:
                log.append(bytes(lost.content))
            queue.put_back(lost, rest_until=now + 3)
        in_flight.clear()
        return
    code = NotLeaderOrFollower.code if trouble in {"moved", "lost request"} else log.append(bytes(batch.content))
    if trouble in {"lost request", "lost answer"}:
        queue.put_back(batch, rest_until=now + 3)
        return
    if trouble == "after append" and code == 0:
        code = NotEnoughReplicasAfterAppend.code
    verdict = queue.judge(batch, code)
    assert verdict is not Verdict.FAILED, code
    if verdict is Verdict.DONE:
        queue.done(batch)
    elif verdict is Verdict.SPLIT:
        queue.split(batch)
    else:
        queue.put_back(batch, rest_until=now + 3)
