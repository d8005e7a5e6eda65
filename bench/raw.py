"""A Kafka connection of a few plain requests, blocking, over one socket: for what a full client hides or would dominate.

Old, non-flexible versions that every Kafka 4 broker still answers: Metadata 1, ListOffsets 1, Produce 3, Fetch 4, ApiVersions
0 (and DescribeQuorum 0, which is flexible from the first). Record batches are uncompressed and from no producer id, so one
prebuilt batch may be sent any number of times: offsets are the broker's to give.
"""

import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from crc32c import crc32c

from bench.case import BenchError

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, DESCRIBE_QUORUM = 0, 1, 2, 3, 18, 55
LATEST = -1
ALL_IN_SYNC = -1
GZIP_CODEC = 1


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition as Metadata shows it; the leader is -1 if there is none."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class RawConnection:
    """One socket to a broker on loopback."""

    def __init__(self, port: int, *, timeout_seconds: float = 60.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def call(self, frame: bytes) -> bytes:
        """Send one request, wait for its answer (without the size)."""
        self.socket.sendall(frame)
        return self.read_answer()

    def read_answer(self) -> bytes:
        (size,) = struct.unpack(">i", self._read_exactly(4))
        return self._read_exactly(size)

    def broker_count(self) -> int:
        """How many brokers a Metadata answer names."""
        (count,) = struct.unpack_from(">i", self.call(request(METADATA, 1, struct.pack(">i", 0))), 4)
        return int(count)

    def partitions(self, topic: str) -> dict[int, PartitionView]:
        """The topic's partitions, by their numbers; none while the broker does not know the topic."""
        answer = self.call(request(METADATA, 1, struct.pack(">i", 1) + string(topic)))
        (brokers,) = struct.unpack_from(">i", answer, 4)
        position = 8
        for _ in range(brokers):
            position = _after_string(answer, position + 4) + 4
            position = _after_string(answer, position)
        # The controller, one topic, its error, its name, whether it is internal.
        position = _after_string(answer, position + 4 + 4 + 2) + 1
        (count,) = struct.unpack_from(">i", answer, position)
        position += 4
        views = {}
        for _ in range(count):
            _, partition, leader = struct.unpack_from(">hii", answer, position)
            replicas, position = _node_ids(answer, position + 10)
            in_sync, position = _node_ids(answer, position)
            views[partition] = PartitionView(leader, replicas, in_sync)
        return views

    def quorum_leader(self) -> int:
        """The node that is the active controller, by DescribeQuorum."""
        topic = b"__cluster_metadata"
        # Flexible: counts and lengths are one more than they say, tagged fields are one zero.
        body = b"\x00\x02" + bytes([len(topic) + 1]) + topic + b"\x02" + struct.pack(">i", 0) + b"\x00\x00\x00"
        answer = self.call(request(DESCRIBE_QUORUM, 0, body))
        (error,) = struct.unpack_from(">h", answer, 5)
        if error:
            raise BenchError(f"DescribeQuorum answered error {error}")
        _, partition_error, leader = struct.unpack_from(">ihi", answer, 5 + 2 + 1 + 1 + len(topic) + 1)
        if partition_error:
            raise BenchError(f"DescribeQuorum answered error {partition_error} for its partition")
        return int(leader)

    def end_offset(self, topic: str, partition: int) -> int:
        """The partition's end by ListOffsets; BenchError while the broker cannot say."""
        return self.offset_at(topic, partition, timestamp_ms=LATEST)

    def offset_at(self, topic: str, partition: int, *, timestamp_ms: int) -> int:
        """The first offset at or after a time, by ListOffsets; -1 if there is none."""
        body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, partition, timestamp_ms)
        answer = self.call(request(LIST_OFFSETS, 1, body))
        error, _, offset = struct.unpack_from(">hqq", answer, 4 + 4 + len(string(topic)) + 4 + 4)
        if error:
            raise BenchError(f"ListOffsets of {topic}-{partition} answered error {error}")
        return int(offset)

    def fetch_size(self, topic: str, partition: int, *, offset: int, max_bytes: int) -> int:
        """Fetch once without waiting; the number of record bytes that came."""
        body = struct.pack(">iiiib", -1, 0, 0, max_bytes, 0) + struct.pack(">i", 1) + string(topic)
        answer = self.call(request(FETCH, 4, body + struct.pack(">iiqi", 1, partition, offset, max_bytes)))
        position = 4 + 4 + 4 + len(string(topic)) + 4 + 4
        error, _, _, aborted = struct.unpack_from(">hqqi", answer, position)
        if error:
            raise BenchError(f"Fetch of {topic}-{partition} at {offset} answered error {error}")
        (size,) = struct.unpack_from(">i", answer, position + 22 + max(aborted, 0) * 16)
        return int(size)

    def _read_exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            received = self.socket.recv(size - len(parts))
            if not received:
                raise ConnectionResetError("the broker closed the connection")
            parts += received
        return bytes(parts)


def request(api_key: int, version: int, body: bytes) -> bytes:
    """A whole frame with header version 1; a flexible body begins with the one byte that header version 2 has more."""
    message = struct.pack(">hhi", api_key, version, 1) + string("bench") + body
    return struct.pack(">i", len(message)) + message


def produce_request(topic: str, partition: int, *, batch: bytes, acks: int = 1) -> bytes:
    """A whole Produce frame with one batch for one partition."""
    return produce_many_request(topic, [partition], batch=batch, acks=acks)


def produce_many_request(topic: str, partitions: Sequence[int], *, batch: bytes, acks: int = 1, timeout_ms: int = 30_000) -> bytes:
    """A whole Produce frame with the same batch for several partitions."""
    body = struct.pack(">hhii", -1, acks, timeout_ms, 1) + string(topic) + struct.pack(">i", len(partitions))
    return request(PRODUCE, 3, body + b"".join(struct.pack(">ii", partition, len(batch)) + batch for partition in partitions))


def produce_error(answer: bytes) -> int:
    """The error code of the only partition in a Produce answer."""
    [error] = produce_errors(answer).values()
    return error


def produce_errors(answer: bytes) -> dict[int, int]:
    """The error codes of the partitions of the only topic in a Produce answer."""
    position = _after_string(answer, 8)
    (count,) = struct.unpack_from(">i", answer, position)
    return dict(struct.unpack_from(">ih", answer, position + 4 + 22 * number) for number in range(count))


def record_batch(count: int, *, value: bytes, timestamp_ms: int) -> bytes:
    """A v2 batch of `count` records with the same value and no key."""
    return _sealed(b"".join(_record(delta, None, value) for delta in range(count)), count, timestamp_ms=timestamp_ms)


def keyed_batch(count: int, *, timestamp_ms: int, compress: Callable[[bytes], bytes]) -> bytes:
    """A v2 batch of `count` small records with one key, compressed in gzip's format."""
    records = b"".join(_record(delta, b"k", b"v") for delta in range(count))
    return _sealed(compress(records), count, timestamp_ms=timestamp_ms, attributes=GZIP_CODEC)


def _sealed(payload: bytes, count: int, *, timestamp_ms: int, attributes: int = 0) -> bytes:
    tail = struct.pack(">hiqqqhii", attributes, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", 0, 4 + 1 + 4 + len(tail), -1, 2, crc32c(tail)) + tail


def _record(offset_delta: int, key: bytes | None, value: bytes) -> bytes:
    key_part = _varint(-1) if key is None else _varint(len(key)) + key
    body = b"\x00\x00" + _varint(offset_delta) + key_part + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def _node_ids(answer: bytes, position: int) -> tuple[tuple[int, ...], int]:
    """An array of node ids, and where it ends."""
    (count,) = struct.unpack_from(">i", answer, position)
    return struct.unpack_from(f">{count}i", answer, position + 4), position + 4 + 4 * count


def _after_string(answer: bytes, position: int) -> int:
    (length,) = struct.unpack_from(">h", answer, position)
    return position + 2 + max(int(length), 0)


def _varint(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def string(text: str) -> bytes:
    """A string as versions without flexible fields have it."""
    return struct.pack(">h", len(text.encode())) + text.encode()
