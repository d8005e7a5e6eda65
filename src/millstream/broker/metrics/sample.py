"""A sample: everything that is published about a broker, as it was at one moment, and its way through a pipe.

The broker writes it in parts, a few hundred rows each, so that no turn of its loop is long; `monitoring` reads it, in another process.
Groups come before partitions: a commit is never ahead of the end that it is compared with. The last part is `BrokerSample`.

    int32 size | marshal of (kind, rows)

Both ends are the same interpreter on the same machine, started one by the other: `marshal` is the fastest way for plain rows (30 000
numbers in half a millisecond), and the pipe has no other writer.
"""

import marshal
import struct
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

PARTITIONS: Final = "partitions"
GROUPS: Final = "groups"
BROKER: Final = "broker"
_SIZE: Final = struct.Struct("<I")


class PartitionSample(NamedTuple):
    """A replica of this broker's."""

    topic: str
    partition: int
    leader: int
    preferred_leader: int
    replicas: int
    in_sync: int
    min_in_sync: int
    log_start_offset: int
    high_watermark: int
    size_bytes: int
    messages_in: int
    bytes_in: int
    bytes_out: int
    produce_requests: int
    failed_produces: int
    fetch_requests: int
    failed_fetches: int


class GroupSample(NamedTuple):
    """A group that this broker coordinates, and its positions."""

    group: str
    members: int
    offsets: Sequence[tuple[str, int, int]]
    """Topic, partition and committed offset."""


class BrokerSample(NamedTuple):
    """What is not about one partition or group."""

    node_id: int
    cluster_id: str
    not_ready: str
    """Why clients are not served as they should be; empty if they are."""
    is_controller: bool
    brokers: int
    topics: Mapping[str, int]
    """How many partitions each topic has, of which any replica may be elsewhere; only the controller says it."""
    offline_partitions: int
    """How many partitions of the cluster have no leader; only the controller knows."""
    values: Mapping[str, int]
    """By the names of Kafka's metrics (`sampler`)."""
    requests: Mapping[str, Sequence[int]]
    """The buckets of `request_times`, by the name of the request."""


class Sample(NamedTuple):
    """All of it."""

    broker: BrokerSample
    partitions: Sequence[PartitionSample]
    groups: Sequence[GroupSample]


def encode_part(kind: str, rows: list[Any]) -> bytes:
    """A part with rows of plain tuples, in the order of the fields above."""
    data = marshal.dumps((kind, rows))
    return _SIZE.pack(len(data)) + data


def read_sample(stream: BinaryIO) -> Sample | None:
    """The next whole sample; None when the broker has closed its end of the pipe."""
    partitions: list[PartitionSample] = []
    groups: list[GroupSample] = []
    while True:
        head = stream.read(_SIZE.size)
        size = _SIZE.unpack(head)[0] if len(head) == _SIZE.size else 0
        data = stream.read(size)
        if not data or len(data) < size:
            return None
        kind, rows = marshal.loads(data)  # noqa: S302 -- written by the process that started this one
        if kind == PARTITIONS:
            partitions += map(PartitionSample._make, rows)
        elif kind == GROUPS:
            groups += map(GroupSample._make, rows)
        else:
            return Sample(BrokerSample._make(rows[0]), partitions, groups)
