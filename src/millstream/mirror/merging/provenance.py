"""Where a merged record comes from: its header `__mirror`, one for each mirror that it went through, the first one first.

    <cluster id>/<partition>/<offset>/<topic>

By it duplicates of an at-least-once copy are recognised, and a record that would go round in circles is left out.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Self

HEADER: Final = "__mirror"

Header = tuple[str, bytes | str | None]


class Provenance(NamedTuple):
    """A record of a cluster."""

    cluster_id: str
    topic: str
    partition: int
    offset: int

    def encode(self) -> bytes:
        """The value of the header."""
        return f"{self.cluster_id}/{self.partition}/{self.offset}/{self.topic}".encode()

    @classmethod
    def parse(cls, value: bytes | str | None) -> Self | None:
        """What the header says; None if no mirror wrote it."""
        try:
            text = value.decode() if isinstance(value, bytes) else value or ""
            cluster_id, partition, offset, topic = text.split("/")
            return cls(cluster_id, topic, int(partition), int(offset))
        except ValueError:
            return None


def went_through(headers: Iterable[Header] | None, cluster_id: str) -> bool:
    """Whether a record with these headers was in the cluster before."""
    found = (Provenance.parse(value) for name, value in headers or () if name == HEADER)
    return any(origin is not None and origin.cluster_id == cluster_id for origin in found)
