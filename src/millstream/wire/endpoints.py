"""Node endpoints: where the leaders live that an answer refers its client to (KIP-951), a tagged field of Produce and Fetch."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from millstream.wire.primitives import INT32, compact_string, tagged_fields, unsigned_varint

_TAG: Final = 0


class NodeEndpoint(NamedTuple):
    """A broker's address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def encode_node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged fields of an answer that has endpoints and nothing else to add."""
    parts = [unsigned_varint(len(endpoints) + 1)]
    for node_id, host, port, rack in endpoints:
        parts += (INT32.pack(node_id), compact_string(host), INT32.pack(port), compact_string(rack), b"\x00")
    return tagged_fields([(_TAG, b"".join(parts))])
