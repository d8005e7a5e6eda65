"""Cuts frames out of what a socket delivers, without copying where it can be helped.

All connections of a broker receive into one shared buffer: a callback receives, cuts and handles before any other connection runs, so a
thousand idle connections hold no memory. What a callback leaves over is kept in one of two ways:
- a frame that has begun and is small: its bytes are kept aside and put in front of the next ones in the shared buffer;
- a frame that has begun and is large (a Produce of a megabyte): it gets a buffer of its own and the rest is received straight into it.

A large buffer grows as bytes come, so a length alone costs no memory, and goes back to a small pool when its frame has been handled.
A frame is a view that is good until the next call of `received`: who needs it longer copies it.
"""

from bisect import insort
from collections.abc import Generator
from typing import Final

from millstream.errors import MalformedFrame
from millstream.wire.frames import SIZE_BYTES, read_size

SHARED_SIZE: Final = 256 * 1024
KEEP_ASIDE_UP_TO: Final = 16 * 1024
FIRST_SIZE: Final = 64 * 1024
MAX_POOLED: Final = 4
MAX_POOLED_SIZE: Final = 2 * 1024 * 1024

Frames = Generator[memoryview, None, None] | tuple[memoryview, ...]
"""One after the other; most clients send one request and wait for its answer, and that one needs no generator."""


class ReceiveBuffers:
    """The shared buffer of a broker and its pool of large ones; knows how much the unfinished requests of all connections hold."""

    def __init__(self, *, max_held_bytes: int) -> None:
        self.shared = memoryview(bytearray(SHARED_SIZE))
        self.max_held_bytes = max_held_bytes
        self.held_bytes = 0
        self._pool: list[bytearray] = []

    def take(self, size: int, *, at_least: int) -> bytearray:
        """A buffer of `size` bytes if the pool has one, else a new one of `at_least`; MalformedFrame where all hold too much already."""
        if self.held_bytes + at_least > self.max_held_bytes:
            raise MalformedFrame(f"requests in flight hold {self.held_bytes} bytes already (queued.max.request.bytes)")
        for number, buffer in enumerate(self._pool):
            if len(buffer) >= size:
                self.held_bytes += len(buffer)
                return self._pool.pop(number)
        self.held_bytes += at_least
        return bytearray(at_least)

    def give(self, buffer: bytearray) -> None:
        """Take a buffer back for the next large frame; of more than the pool holds, the smallest goes: big ones are costly to make."""
        self.held_bytes -= len(buffer)
        if len(buffer) <= MAX_POOLED_SIZE:
            insort(self._pool, buffer, key=len)
            if len(self._pool) > MAX_POOLED:
                del self._pool[0]


class FrameReader:
    """The receiving half of one connection, without its socket."""

    __slots__ = ("_aside", "_buffers", "_filled", "_frame_size", "_large", "_large_view", "max_frame_size")

    def __init__(self, buffers: ReceiveBuffers, *, max_frame_size: int) -> None:
        self.max_frame_size = max_frame_size
        self._buffers = buffers
        self._aside = b""
        self._large: bytearray | None = None
        self._large_view = memoryview(b"")
        self._filled = 0
        self._frame_size = 0

    @property
    def is_inside_frame(self) -> bool:
        """Whether a frame has begun that is not complete."""
        return self._large is not None or bool(self._aside)

    def target(self) -> memoryview:
        """Where the next bytes are to be received; `received` must follow before anybody else asks."""
        if self._large is not None:
            return self._large_view[self._filled : min(len(self._large), self._frame_size)]
        aside = self._aside
        if not aside:
            return self._buffers.shared
        self._buffers.shared[: len(aside)] = aside
        return self._buffers.shared[len(aside) :]

    def received(self, count: int) -> Frames:
        """The frames that are complete now that `count` more bytes lie in the target; those not taken before `close` are kept."""
        if self._large is not None:
            return self._received_large(count)
        shared = self._buffers.shared
        if not self._aside and count > SIZE_BYTES and read_size(shared, limit=self.max_frame_size) == count - SIZE_BYTES:
            return (shared[SIZE_BYTES:count],)
        return self._received_shared(count)

    def release(self) -> None:
        """Give up whatever is held; the connection is gone."""
        self._aside = b""
        if self._large is not None:
            self._buffers.give(self._large)
            self._large = None
            self._large_view = memoryview(b"")

    def _received_shared(self, count: int) -> Generator[memoryview, None, None]:
        shared = self._buffers.shared
        end = len(self._aside) + count
        self._aside = b""
        position = 0
        while end - position >= SIZE_BYTES:
            size = read_size(shared, position, limit=self.max_frame_size)
            start = position + SIZE_BYTES
            if start + size > end:
                if size > KEEP_ASIDE_UP_TO:
                    self._begin_large(shared[start:end], size)
                    return
                break
            position = start + size
            try:
                yield shared[start:position]
            except GeneratorExit:
                self._aside = bytes(shared[position:end])
                raise
        if position < end:
            self._aside = bytes(shared[position:end])

    def _begin_large(self, beginning: memoryview, size: int) -> None:
        self._frame_size = size
        self._large = self._buffers.take(size, at_least=min(_rounded(size), max(FIRST_SIZE, 2 * len(beginning))))
        self._large_view = memoryview(self._large)
        self._filled = len(beginning)
        self._large_view[: self._filled] = beginning

    def _received_large(self, count: int) -> Generator[memoryview, None, None]:
        large = self._large
        assert large is not None
        self._filled += count
        if self._filled == self._frame_size:
            frame = self._large_view[: self._frame_size]
            self._large = None
            self._large_view = memoryview(b"")
            try:
                yield frame
            finally:
                self._buffers.give(large)
        elif self._filled == len(large):
            self._grow(large)

    def _grow(self, large: bytearray) -> None:
        grown = self._buffers.take(self._frame_size, at_least=min(_rounded(self._frame_size), 2 * len(large)))
        grown[: self._filled] = self._large_view[: self._filled]
        self._buffers.give(large)
        self._large = grown
        self._large_view = memoryview(grown)


def _rounded(size: int) -> int:
    """Sizes of requests differ by a few bytes; buffers do not, so that one request's buffer fits the next."""
    return -(-size // SHARED_SIZE) * SHARED_SIZE
