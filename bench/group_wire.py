"""Frames of the group APIs, built by hand, for benchmarks that must not measure a client.

Versions without a handshake and without flexible fields where there are such: JoinGroup 3, SyncGroup 2, Heartbeat 2, OffsetCommit 7,
OffsetFetch 5. ConsumerGroupHeartbeat exists only in flexible versions. Answers are parsed as far as a benchmark needs them.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench.case import BenchError
from bench.raw import RawConnection, request, string

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT = 8, 9, 10, 11, 12, 14, 68
REBALANCE_IN_PROGRESS = 27
TIMEOUT_MS = 60_000
NOT_YET = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""


class Joined(NamedTuple):
    """What a JoinGroup answer said."""

    generation: int
    leader: str
    member_id: str


class Beat(NamedTuple):
    """What a heartbeat of the new protocol said; None where the assignment has not changed."""

    epoch: int
    partitions: tuple[int, ...] | None


def find_coordinator_request(group: str) -> bytes:
    """FindCoordinator 1; asking makes the broker create the offsets topic."""
    return request(FIND_COORDINATOR, 1, string(group) + b"\x00")


def join_request(group: str, member_id: str, *, data: bytes) -> bytes:
    """JoinGroup 3 of a consumer that wants no topics and says `data` to its leader."""
    protocols = struct.pack(">i", 1) + string("range") + _bytes(struct.pack(">hi", 0, 0) + _bytes(data))
    body = string(group) + struct.pack(">ii", TIMEOUT_MS, TIMEOUT_MS) + string(member_id) + string("consumer") + protocols
    return request(JOIN_GROUP, 3, body)


def parse_join(answer: bytes) -> Joined:
    """The answer of JoinGroup; an error raises."""
    _, _, error, generation = struct.unpack_from(">iihi", answer)
    if error:
        raise BenchError(f"JoinGroup answered error {error}")
    position = 14
    _, position = _read_string(answer, position)
    leader, position = _read_string(answer, position)
    member_id, position = _read_string(answer, position)
    return Joined(generation, leader, member_id)


def sync_request(group: str, member_id: str, *, generation: int, assignments: Mapping[str, bytes]) -> bytes:
    """SyncGroup 2; only the leader gives assignments."""
    given = struct.pack(">i", len(assignments)) + b"".join(string(name) + _bytes(data) for name, data in assignments.items())
    return request(SYNC_GROUP, 2, string(group) + struct.pack(">i", generation) + string(member_id) + given)


def check_sync(answer: bytes) -> None:
    """Raises if SyncGroup was answered with an error."""
    (error,) = struct.unpack_from(">h", answer, 8)
    if error:
        raise BenchError(f"SyncGroup answered error {error}")


def is_rebalancing(connection: RawConnection, group: str, member: Joined) -> bool:
    """Whether a Heartbeat tells the member to join again."""
    body = string(group) + struct.pack(">i", member.generation) + string(member.member_id)
    (error,) = struct.unpack_from(">h", connection.call(request(HEARTBEAT, 2, body)), 8)
    if error not in (0, REBALANCE_IN_PROGRESS):
        raise BenchError(f"Heartbeat answered error {error}")
    return bool(error)


def commit_request(group: str, topic: str, *, offsets: Mapping[int, int]) -> bytes:
    """OffsetCommit of a consumer that assigns its own partitions."""
    partitions = b"".join(struct.pack(">iqi", number, offset, -1) + string("") for number, offset in offsets.items())
    body = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">h", -1)
    return request(OFFSET_COMMIT, 7, body + struct.pack(">i", 1) + string(topic) + struct.pack(">i", len(offsets)) + partitions)


def commit_error(answer: bytes) -> int:
    """The first error of an OffsetCommit answer for one topic, 0 if there is none."""
    _, position = _read_string(answer, 12)
    (count,) = struct.unpack_from(">i", answer, position)
    return next((error for _, error in struct.iter_unpack(">ih", answer[position + 4 : position + 4 + 6 * count]) if error), 0)


def fetch_request(group: str, topic: str, *, partition: int) -> bytes:
    """OffsetFetch 5 for one partition."""
    return request(OFFSET_FETCH, 5, string(group) + struct.pack(">i", 1) + string(topic) + struct.pack(">ii", 1, partition))


def fetched_offset(answer: bytes) -> int | None:
    """The offset in an OffsetFetch answer for one partition; None while the coordinator loads."""
    (group_error,) = struct.unpack_from(">h", answer, len(answer) - 2)
    if group_error in NOT_YET:
        return None
    _, position = _read_string(answer, 12)
    _, _, offset = struct.unpack_from(">iiq", answer, position)
    (error,) = struct.unpack_from(">h", answer, len(answer) - 4)
    if group_error or error:
        raise BenchError(f"OffsetFetch answered errors {group_error} and {error}")
    return int(offset)


def heartbeat_request(
    group: str, member_id: str, *, epoch: int, topics: Sequence[str] | None, owned: tuple[bytes, Sequence[int]] | None
) -> bytes:
    """ConsumerGroupHeartbeat 1; `topics` only in the first, `owned` (topic id, partitions) where it is reported."""
    names = b"\x00" if topics is None else _varint(len(topics) + 1) + b"".join(_compact(name) for name in topics)
    if owned is None:
        partitions = b"\x00" if topics is None else b"\x01"
    elif not owned[1]:
        partitions = b"\x01"
    else:
        numbers = _varint(len(owned[1]) + 1) + struct.pack(f">{len(owned[1])}i", *owned[1])
        partitions = b"\x02" + owned[0] + numbers + b"\x00"
    timeout = TIMEOUT_MS if topics is not None else -1
    body = _compact(group) + _compact(member_id) + struct.pack(">i", epoch) + b"\x00\x00" + struct.pack(">i", timeout)
    body += names + b"\x00" + b"\x00" + partitions + b"\x00"
    header = struct.pack(">hhi", CONSUMER_GROUP_HEARTBEAT, 1, 1) + string("bench") + b"\x00"
    return struct.pack(">i", len(header) + len(body)) + header + body


def parse_heartbeat(answer: bytes) -> Beat:
    """Epoch and partitions of the one topic there is."""
    (error,) = struct.unpack_from(">h", answer, 9)
    if error:
        raise BenchError(f"ConsumerGroupHeartbeat answered error {error}: {answer[11:200]!r}")
    position = _skip_compact(answer, _skip_compact(answer, 11))
    epoch, _ = struct.unpack_from(">ii", answer, position)
    position += 8
    if answer[position] == 0xFF:
        return Beat(epoch, None)
    topics, position = _read_varint(answer, position + 1)
    numbers: tuple[int, ...] = ()
    for _ in range(topics - 1):
        count, position = _read_varint(answer, position + 16)
        numbers += struct.unpack_from(f">{count - 1}i", answer, position)
        position += 4 * (count - 1) + 1
    return Beat(epoch, numbers)


def topic_id_in(answer: bytes) -> bytes | None:
    """The id of the first topic in a heartbeat's assignment."""
    position = _skip_compact(answer, _skip_compact(answer, 11)) + 8
    if answer[position] == 0xFF or answer[position + 1] < 2:
        return None
    return answer[position + 2 : position + 18]


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, position)
    end = position + 2 + max(length, 0)
    return data[position + 2 : end].decode(), end


def _compact(text: str) -> bytes:
    return _varint(len(text) + 1) + text.encode()


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7


def _skip_compact(data: bytes, position: int) -> int:
    length, position = _read_varint(data, position)
    return position + max(length - 1, 0)
