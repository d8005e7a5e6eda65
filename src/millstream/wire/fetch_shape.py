"""What Fetch requests of one partition, sent again and again, have in common: all but three numbers.

    api key, version | correlation id | client id, limits, session id | session epoch | topic, partition | offset | rest, to the end
    ---- same -----    differs          ------------ same -----------   differs         ----- same -----   differs  ---- same -----

The rest says how many bytes are wanted at most, and who fetches: a request in which anything of it is another has another shape.
`tests/properties/test_wire_fetch.py` holds what a shape finds equal to what is decoded.
"""

import struct
from typing import Final, Self

from millstream.wire.fetch import FetchRequest
from millstream.wire.primitives import UUID_SIZE, unsigned_varint

LOWEST_VERSION: Final = 7
"""The first with sessions."""
_FIRST_WITH_LEADER_EPOCH: Final = 9
_FIRST_FLEXIBLE: Final = 12
_FIRST_WITH_TOPIC_ID: Final = 13
_FIRST_WITH_REPLICA_STATE: Final = 15
_LIMITS_SIZE: Final = 13

Numbers = tuple[int, int, int]
"""Correlation id, session epoch and offset."""


class FetchShape:
    """The bytes that such requests share, and where the others stand."""

    __slots__ = ("_layout", "_same")

    def __init__(self, frame: memoryview, *, epoch_at: int, offset_at: int) -> None:
        self._layout = struct.Struct(f">4si{epoch_at - 8}si{offset_at - epoch_at - 4}sq{len(frame) - offset_at - 8}s")
        version, _, limits, _, partition, _, rest = self._layout.unpack(frame)
        self._same = (version, limits, partition, rest)

    @classmethod
    def of(cls, frame: memoryview, version: int, request: FetchRequest, *, body_start: int) -> Self | None:
        """The shape of a request that was decoded; None if it does not name one partition, or is not written in the usual way."""
        if version < LOWEST_VERSION or len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return None
        name, _, [partition] = request.topics[0]
        epoch_at = body_start + (0 if version >= _FIRST_WITH_REPLICA_STATE else 4) + _LIMITS_SIZE + 4
        offset_at = epoch_at + 4 + _size_of_topic(version, name) + (8 if version >= _FIRST_WITH_LEADER_EPOCH else 4)
        if offset_at + 8 > len(frame):
            return None
        shape = cls(frame, epoch_at=epoch_at, offset_at=offset_at)
        found = shape.match(frame)
        return shape if found is not None and found[1:] == (request.session_epoch, partition.fetch_offset) else None

    def match(self, frame: memoryview) -> Numbers | None:
        """What is of its own in a request of this shape; None for any other request."""
        layout = self._layout
        if len(frame) != layout.size:
            return None
        version, correlation_id, limits, session_epoch, partition, offset, rest = layout.unpack(frame)
        return (correlation_id, session_epoch, offset) if (version, limits, partition, rest) == self._same else None


def _size_of_topic(version: int, name: str | None) -> int:
    """From the number of topics to the number of partitions; both are one."""
    if version >= _FIRST_WITH_TOPIC_ID:
        return 1 + UUID_SIZE + 1
    size = len((name or "").encode())
    return 1 + len(unsigned_varint(size + 1)) + size + 1 if version >= _FIRST_FLEXIBLE else 4 + 2 + size + 4
