"""Keys and values written to one partition, in their order, in batches that every topic takes. Blocking."""

from collections.abc import Iterable, Iterator
from time import time
from typing import Final

from millstream.client.cluster import Cluster
from millstream.client.codecs.produce import BatchFor
from millstream.topic_partition import TopicPartition
from millstream.wire.compression import Codec
from millstream.wire.records import KeyValue, encode_key_values

MOST_BATCH_BYTES: Final = 500_000
"""Half of what a topic takes by default: a batch is measured before it is compressed."""


def write_key_values(cluster: Cluster, place: TopicPartition, pairs: Iterable[KeyValue], *, timeout_ms: int = 30_000) -> None:
    """Write the pairs, a value of None as a tombstone; raises if one of them may not have been written."""
    for batch in batches_of(pairs):
        encoded = encode_key_values(batch, timestamp=int(time() * 1000), codec=Codec.LZ4)
        cluster.produce(BatchFor(*place, encoded), timeout_ms=timeout_ms)


def batches_of(pairs: Iterable[KeyValue]) -> Iterator[list[KeyValue]]:
    """The pairs in batches; one that is larger than that is a batch of its own."""
    batch: list[KeyValue] = []
    size = 0
    for key, value in pairs:
        added = len(key or b"") + len(value or b"")
        if batch and size + added > MOST_BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append((key, value))
        size += added
    if batch:
        yield batch
