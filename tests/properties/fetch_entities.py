"""What the tests of both codecs of Fetch, that of consumers and that of followers, compare with kio's."""

from typing import Any

from hypothesis import strategies as st

from millstream.client.codecs.fetch import FetchFrom
from millstream.client.codecs.replica_fetch import ReplicaWanted


def partition_fields(wanted: FetchFrom | ReplicaWanted) -> dict[str, int]:
    """What is wanted from a partition, by kio's names."""
    return {
        "partition": wanted.partition,
        "current_leader_epoch": wanted.leader_epoch,
        "fetch_offset": wanted.offset,
        "last_fetched_epoch": wanted.last_fetched_epoch,
        "log_start_offset": wanted.log_start_offset,
        "partition_max_bytes": wanted.max_bytes,
    }


def if_given(entity: Any, first: str, second: str) -> tuple[int, int] | None:
    """Two fields of an entity that is left out if it has its defaults."""
    return None if entity == type(entity)() else (getattr(entity, first), getattr(entity, second))


def damaged(data: st.DataObject, body: bytes) -> memoryview:
    """The bytes with one of them changed, and perhaps cut off."""
    changed = bytearray(body)
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    return memoryview(changed[: data.draw(st.integers(0, len(changed)))])
