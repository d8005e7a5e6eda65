"""Whole partitions of small topics, read by raw fetches: `_audit_state`, and what of `_audit` is newer than it."""

from collections.abc import Iterator

from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import FetchFrom
from millstream.errors import CorruptMessage, OffsetOutOfRange
from millstream.offset import EARLIEST, LATEST
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import split_batches
from millstream.wire.records import Record, decode_records

FETCH_BYTES = 8 << 20


def read_partition(cluster: Cluster, place: TopicPartition, *, start: int = 0) -> Iterator[Record]:
    """Every record from `start`, or where the log begins by now, up to the end that it has at this moment."""
    position = max(start, cluster.offsets({place: EARLIEST})[place].offset)
    end = cluster.offsets({place: LATEST})[place].offset
    while position < end:
        try:
            fetched = cluster.fetch(FetchFrom(*place, position, FETCH_BYTES))
        except OffsetOutOfRange:
            position = cluster.offsets({place: EARLIEST})[place].offset
            continue
        before = position
        for header, batch in split_batches(fetched.records):
            if header.next_offset > position:
                position = header.next_offset
                if not header.is_control:
                    yield from (record for record in decode_records(batch) if record.offset >= before)
        if position == before:
            raise CorruptMessage(f"{place} has nothing at offset {position}, though it goes up to {end}")
