"""Layouts for the tests of planners: drawn by hypothesis, or written down by hand."""

import random
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from millstream.cli.cluster.planning.layout import Layout, PartitionLayout
from millstream.topic_partition import TopicPartition

MIB = 1024 * 1024


def layout_of(racks: Mapping[int, str | None] | Sequence[int], partitions: Mapping[str, tuple[tuple[int, ...], int]]) -> Layout:
    """`{"t-0": ((1, 2), 100)}`: the replicas and MiB of partitions."""
    known = racks if isinstance(racks, Mapping) else dict.fromkeys(racks)
    places = {TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])): value for name, value in partitions.items()}
    return Layout(known, {place: PartitionLayout(replicas, size * MIB) for place, (replicas, size) in places.items()})


@st.composite
def layouts(draw: st.DrawFn, *, min_brokers: int = 1) -> Layout:
    """Up to seven brokers, perhaps in racks, and up to sixty partitions of any sizes, placed anyhow."""
    count = draw(st.integers(min_brokers, 7))
    rack_count = draw(st.integers(0, 4))
    racks = {broker: f"rack-{draw(st.integers(1, rack_count))}" if rack_count else None for broker in range(1, count + 1)}
    chance = random.Random(draw(st.integers(0, 1 << 30)))
    # A new broker, or two, has nothing.
    used = list(racks)[: max(1, count - draw(st.integers(0, 2)))]
    partitions = {}
    for topic in range(draw(st.integers(0, 4))):
        factor = draw(st.integers(1, min(3, len(used))))
        largest = draw(st.sampled_from([0, 10, 1_000, 100_000]))
        for number in range(draw(st.integers(1, 15))):
            replicas = tuple(chance.sample(used, factor))
            partitions[TopicPartition(f"topic-{topic}", number)] = PartitionLayout(replicas, chance.randint(0, largest) * MIB)
    return Layout(racks, partitions)


def unevenness(layout: Layout) -> float:
    """The sum of squares that a balance makes smaller; bytes of less than ten MiB a broker count as if it were that many."""
    loads = [layout.loads()[broker] for broker in layout.racks]
    bytes_each = max(sum(load.size_bytes for load in loads) / len(loads), 10 * MIB)
    count_each = max(sum(load.partitions for load in loads) / len(loads), 1)
    mean_bytes = sum(load.size_bytes for load in loads) / len(loads)
    mean_count = sum(load.partitions for load in loads) / len(loads)
    by_bytes = sum(((load.size_bytes - mean_bytes) / bytes_each) ** 2 for load in loads)
    return by_bytes + sum(((load.partitions - mean_count) / count_each) ** 2 for load in loads)


def copied_bytes(before: Layout, after: Layout) -> int:
    """What goes over the network between two layouts."""
    return sum(
        known.size_bytes * len(set(known.replicas) - set(before.partitions[place].replicas)) for place, known in after.partitions.items()
    )


def check_kept(before: Layout, after: Layout) -> None:
    """Every partition has as many replicas as before, no broker twice, only brokers that are there for new ones."""
    assert before.partitions.keys() == after.partitions.keys()
    for place, known in after.partitions.items():
        old = before.partitions[place].replicas
        assert len(known.replicas) == len(old)
        assert len(set(known.replicas)) == len(known.replicas)
        assert set(known.replicas) - set(old) <= set(before.racks)
