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
END: Final = "end"
"""After the samples of several brokers: the numbers of all of them, of which some may be down."""
PART_SIZE: Final = struct.Struct("<I")


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
    adding: int = 0
    """How many of the replicas are new, and not finished."""
    is_reassigning: bool = False


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
    process_id: int = 0


class Sample(NamedTuple):
    """All of it."""

    broker: BrokerSample
    partitions: Sequence[PartitionSample]
    groups: Sequence[GroupSample]
    parts: "Sequence[Sample]" = ()
    """The samples of several brokers that this one is made of (`monitoring.several`)."""
    ended: Sequence[PartitionSample] = ()
    """What those of them that were ended had counted, a row for each topic."""

    @property
    def led(self) -> list[PartitionSample]:
        """The partitions that are led where this was taken."""
        if self.parts:
            return [row for part in self.parts for row in part.led]
        return [row for row in self.partitions if row.leader == self.broker.node_id]


def encode_part(kind: str, rows: list[Any]) -> bytes:
    """A part with rows of plain tuples, in the order of the fields above."""
    data = marshal.dumps((kind, rows))
    return PART_SIZE.pack(len(data)) + data


def decode_part(data: bytes) -> tuple[str, list[Any]]:
    """Kind and rows of a part, without the size before it."""
    kind, rows = marshal.loads(data)  # noqa: S302 -- written by a process that started this one, or that this one started
    return kind, rows


def read_sample(stream: BinaryIO) -> Sample | None:
    """The next whole sample; None when the broker has closed its end of the pipe."""
    sample = _read(stream)
    return sample if isinstance(sample, Sample) else None


def read_several(stream: BinaryIO) -> tuple[list[Sample], list[int]] | None:
    """The next samples of several brokers, and the numbers of all of them; None as above."""
    samples: list[Sample] = []
    while isinstance(sample := _read(stream), Sample):
        samples.append(sample)
    return None if sample is None else (samples, sample)


def _read(stream: BinaryIO) -> Sample | list[int] | None:
    partitions: list[PartitionSample] = []
    groups: list[GroupSample] = []
    while True:
        head = stream.read(PART_SIZE.size)
        size = PART_SIZE.unpack(head)[0] if len(head) == PART_SIZE.size else 0
        data = stream.read(size)
        if not data or len(data) < size:
            return None
        kind, rows = decode_part(data)
        if kind == PARTITIONS:
            partitions += map(PartitionSample._make, rows)
        elif kind == GROUPS:
            groups += map(GroupSample._make, rows)
        elif kind == END:
            return list(rows)
        else:
            return Sample(BrokerSample._make(rows[0]), partitions, groups)
