"""Cuts the answers out of what a socket delivers: bytes in, frames out, whoever does the receiving.

    count = socket.recv_into(frames.target())
    for frame in frames.received(count): ...

Small answers, several of them if the broker sent them together, cost one receive. A frame that has only begun gets memory of its own and
the rest is received straight into it, so the record batches of a large answer are not copied. No frame shares memory with another or is
written again: views into it are good for as long as they are held.

Whoever reads one large answer after the other lets the memory of those that nothing refers to any more be used again: new memory has to be
zeroed and its pages fetched, which costs as much as receiving the bytes. It is shared by all such connections of a process, so many idle
ones do not make it large.
"""

from collections import deque
from mmap import MAP_PRIVATE, mmap
from typing import Final

from millstream.wire.frames import SIZE_BYTES, read_size

MAX_ANSWER_BYTES: Final = 1 << 30
RECEIVE_BYTES: Final = 64 * 1024
_MAPPED_BYTES: Final = 32 * 1024 * 1024
"""From here on malloc maps memory anew each time, and zeroing it takes tens of milliseconds, for a size that may be a lie."""
_KEPT_SIZES: Final = range(256 * 1024, 8 * 1024 * 1024 + 1)
"""Frames of these sizes are worth keeping."""
_MOST_KEPT: Final = 8
"""A thread needs two: one is looked at while the next is received."""
_GRANULE: Final = 256 * 1024

_kept: deque[bytearray] = deque(maxlen=_MOST_KEPT)


class AnswerFrames:
    """The receiving half of one connection, without its socket."""

    __slots__ = ("_begun", "_filled", "_frame", "_keeps_memory", "_shared", "max_frame_bytes")

    def __init__(self, *, max_frame_bytes: int = MAX_ANSWER_BYTES, keeps_memory: bool = False) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._keeps_memory = keeps_memory
        self._shared = memoryview(bytearray(RECEIVE_BYTES))
        self._begun = 0
        """So many bytes of a size that is not complete stand at the beginning of the shared buffer."""
        self._frame: memoryview | None = None
        self._filled = 0

    def target(self) -> memoryview:
        """Where the next bytes are to be received, never empty; `received` says how many came."""
        if self._frame is not None:
            return self._frame[self._filled :]
        return self._shared[self._begun :] if self._begun else self._shared

    def received(self, count: int) -> list[memoryview]:
        """The frames that are complete now, without their sizes; MalformedFrame for a size that cannot be or is above the limit."""
        if self._frame is None:
            return self._cut(self._begun + count)
        self._filled += count
        if self._filled < len(self._frame):
            return []
        frame, self._frame = self._frame, None
        return [frame]

    def _cut(self, end: int) -> list[memoryview]:
        shared, position = self._shared, 0
        frames: list[memoryview] = []
        while end - position >= SIZE_BYTES:
            start = position + SIZE_BYTES
            position = start + read_size(shared, position, limit=self.max_frame_bytes)
            if position > end:
                size = position - start
                self._frame = _take_kept(size) if self._keeps_memory and size in _KEPT_SIZES else _memory(size)
                self._filled = end - start
                self._frame[: self._filled] = shared[start:end]
                self._begun = 0
                return frames
            frames.append(memoryview(bytearray(shared[start:position])))
        self._begun = end - position
        if self._begun:
            shared[: self._begun] = bytes(shared[position:end])
        return frames


def _take_kept(size: int) -> memoryview:
    """Memory that is free, or new. While a thread looks at a piece no other sees it."""
    for _ in range(len(_kept)):
        try:
            kept = _kept.popleft()
        except IndexError:
            break
        view = memoryview(kept)[:size] if len(kept) >= size and _is_free(kept) else None
        _kept.append(kept)
        if view is not None:
            return view
    made = bytearray(-(-size // _GRANULE) * _GRANULE)
    view = memoryview(made)[:size]
    _kept.append(made)
    return view


def _is_free(memory: bytearray) -> bool:
    """Whether there is no view of it left: only then Python lets it grow."""
    try:
        memory.append(0)
    except BufferError:
        return False
    memory.pop()
    return True


def _memory(size: int) -> memoryview:
    """Memory for a frame; a large one takes pages only as bytes come."""
    return memoryview(bytearray(size) if size < _MAPPED_BYTES else mmap(-1, size, flags=MAP_PRIVATE))
