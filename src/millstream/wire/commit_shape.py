"""OffsetCommit requests that look like the one before: read, and answered, by one call each.

A consumer commits the same partitions again and again. Only the correlation id, the offsets and the leader epochs of its requests differ,
and they stand at fixed places; the answer, if all goes well, differs only in the correlation id.

    api key, version | correlation id | ... index | offset, epoch | ... index | offset, epoch | ...
    ---- same ----     differs          - same -    differs         - same -    differs         same

A shape is made of a request that was decoded (`wire.offset_commit`) and its answer. Whatever does not have exactly that shape has to be
decoded as well. What a commit means is not known here.
"""

from struct import Struct
from typing import Final, NamedTuple, Self

from millstream.wire.offset_commit import FIRST_WITH_LEADER_EPOCH, OffsetCommitRequest
from millstream.wire.primitives import INT32

_BEFORE_CORRELATION: Final = 4
_AFTER_CORRELATION: Final = 8
_OFFSET_AND_EPOCH_SIZE: Final = 12


class CommitNumbers(NamedTuple):
    """What is of its own in a request of a known shape."""

    correlation_id: int
    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]


class CommitShape:
    """What the commits of a consumer have in common."""

    __slots__ = ("_answer_end", "_answer_start", "_key_and_version", "_layout", "_same", "_size")

    def __init__(self, frame: memoryview, places: list[int], *, answer: bytes) -> None:
        ends = [_AFTER_CORRELATION, *(place + _OFFSET_AND_EPOCH_SIZE for place in places)]
        sizes = [start - end for end, start in zip(ends, [*places, len(frame)], strict=True)]
        self._size = len(frame)
        self._layout = Struct(">4si" + "qi".join(f"{size}s" for size in sizes))
        parts = self._layout.unpack(frame)
        self._key_and_version: bytes = parts[0]
        self._same: tuple[bytes, ...] = parts[2::3]
        self._answer_start = answer[:_BEFORE_CORRELATION]
        self._answer_end = answer[_AFTER_CORRELATION:]

    @classmethod
    def of(cls, frame: memoryview, version: int, request: OffsetCommitRequest, *, answer: bytes) -> Self | None:
        """The shape of a request with its answer; None where leader epochs are missing (before version 6) or nothing is committed."""
        if version < FIRST_WITH_LEADER_EPOCH or not request.offset_places:
            return None
        return cls(frame, request.offset_places, answer=answer)

    def match(self, frame: memoryview) -> CommitNumbers | None:
        """The numbers of a request of this shape; None for any other request."""
        if len(frame) != self._size:
            return None
        parts = self._layout.unpack(frame)
        if parts[0] != self._key_and_version or parts[2::3] != self._same:
            return None
        return CommitNumbers(parts[1], parts[3::3], parts[4::3])

    def answer(self, correlation_id: int) -> bytes:
        """The answer that goes with this shape."""
        return self._answer_start + INT32.pack(correlation_id) + self._answer_end
