"""What was promised against what is there. Pure: histories and logs in, problems out.

    lost          acknowledged, and nowhere in its partition
    moved         acknowledged at one offset, found at another
    duplicated    in a log more than once; producers are idempotent and nothing is sent again by hand, so never right
    reordered     after a record of the same producer with a higher sequence number
    invented      in a log, never sent there
    offsets       not ascending within a partition
    gone back     a committed offset that was acknowledged and lost, answered stale, or overwritten by a member that should have been fenced
    undelivered   below what a group committed, and given to none of its members
    diverged      replicas of a partition with different bytes below the high watermark

A record that was not acknowledged may be there or not, once.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.cluster.faults.history import NOT_ACKNOWLEDGED, SOMEWHERE, ProducerHistory

KINDS = ("lost", "moved", "duplicated", "reordered", "invented", "offsets", "gone back", "undelivered", "diverged")


class Problem(NamedTuple):
    """One promise broken."""

    kind: str
    text: str


class Stored(NamedTuple):
    """A record as a consumer read it back."""

    offset: int
    producer: str
    sequence: int


class Batch(NamedTuple):
    """A batch as it lies in a replica's files."""

    base_offset: int
    size_bytes: int
    digest: int


def check_records(producers: Mapping[str, ProducerHistory], logs: Mapping[int, Sequence[Stored]]) -> list[Problem]:
    """Every record of every partition against what its producer sent and what was acknowledged."""
    problems: list[Problem] = []
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for partition, records in logs.items():
        problems += _check_partition(producers, partition, records, found)
    for name, producer in producers.items():
        problems += _check_acknowledged(name, producer, found)
    return problems


def check_deliveries(delivered: Mapping[tuple[str, int], bytearray], committed: Mapping[tuple[str, int], int]) -> list[Problem]:
    """A group got every record that it committed."""
    problems = []
    for (group, partition), end in committed.items():
        seen = delivered.get((group, partition), bytearray())[:end]
        missing = end - len(seen) + seen.count(0)
        if missing:
            first = seen.find(0) if 0 in seen else len(seen)
            text = f"group {group}, partition {partition}: {missing} records below {end}, the first at {first}"
            problems.append(Problem("undelivered", text))
    return problems


def check_replicas(partition: str, replicas: Mapping[int, Sequence[Batch]]) -> list[Problem]:
    """All replicas have the same batches."""
    (first, expected), *others = replicas.items()
    problems = []
    for broker, batches in others:
        if list(batches) != list(expected):
            text = f"{partition}: brokers {first} and {broker} differ: {_first_difference(expected, batches)}"
            problems.append(Problem("diverged", text))
    return problems


def counts(problems: Sequence[Problem]) -> dict[str, int]:
    """How many of each kind, kinds without a problem included."""
    return dict.fromkeys(KINDS, 0) | Counter(problem.kind for problem in problems)


def _check_partition(
    producers: Mapping[str, ProducerHistory], partition: int, records: Sequence[Stored], found: dict[tuple[str, int], tuple[int, int]]
) -> Iterator[Problem]:
    """The order and the origin of the records of one partition; adds where each was found first."""
    last_offset = -1
    last_of: dict[str, int] = {}
    for record in records:
        where = f"partition {partition}, offset {record.offset}: {record.producer} {record.sequence}"
        producer = producers.get(record.producer)
        if record.offset <= last_offset:
            yield Problem("offsets", f"{where} after offset {last_offset}")
        last_offset = record.offset
        if producer is None or record.sequence >= len(producer.partitions) or producer.partitions[record.sequence] != partition:
            yield Problem("invented", where)
            continue
        key = (record.producer, record.sequence)
        if key in found:
            yield Problem("duplicated", f"{where} is also in partition {found[key][0]} at {found[key][1]}")
            continue
        found[key] = (partition, record.offset)
        if record.sequence < last_of.get(record.producer, -1):
            yield Problem("reordered", f"{where} after {last_of[record.producer]}")
        last_of[record.producer] = max(record.sequence, last_of.get(record.producer, -1))


def _check_acknowledged(name: str, producer: ProducerHistory, found: Mapping[tuple[str, int], tuple[int, int]]) -> Iterator[Problem]:
    for sequence, offset in enumerate(producer.offsets):
        if offset == NOT_ACKNOWLEDGED:
            continue
        where = found.get((name, sequence))
        promised = f"{name} {sequence}, acknowledged in partition {producer.partitions[sequence]} at {offset}"
        if where is None:
            yield Problem("lost", promised)
        elif offset not in {where[1], SOMEWHERE}:
            yield Problem("moved", f"{promised}, is at {where[1]}")


def _first_difference(one: Sequence[Batch], other: Sequence[Batch]) -> str:
    for left, right in zip(one, other, strict=False):
        if left != right:
            return f"{left} and {right}"
    return f"{len(one)} and {len(other)} batches"
