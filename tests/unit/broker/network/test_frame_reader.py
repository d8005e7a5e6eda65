import pytest

from millstream.broker.network.frame_reader import (
    FIRST_SIZE,
    KEEP_ASIDE_UP_TO,
    MAX_POOLED,
    MAX_POOLED_SIZE,
    SHARED_SIZE,
    FrameReader,
    ReceiveBuffers,
)
from millstream.errors import MalformedFrame

MIB = 1024 * 1024


def reader_with(*, max_held_bytes: int = 64 * MIB, max_frame_size: int = 100 * MIB) -> tuple[FrameReader, ReceiveBuffers]:
    buffers = ReceiveBuffers(max_held_bytes=max_held_bytes)
    return FrameReader(buffers, max_frame_size=max_frame_size), buffers


def feed(reader: FrameReader, data: bytes) -> list[bytes]:
    """Receive all of the data, however many calls the targets take; the frames, copied."""
    frames: list[bytes] = []
    while data:
        target = reader.target()
        count = min(len(target), len(data))
        assert count > 0, "a target without room would look like a closed connection"
        target[:count] = data[:count]
        frames += [bytes(frame) for frame in reader.received(count)]
        data = data[count:]
    return frames


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def test_several_frames_come_out_of_one_call() -> None:
    reader, _ = reader_with()
    assert feed(reader, framed(b"first") + framed(b"second") + framed(b"third")) == [b"first", b"second", b"third"]
    assert not reader.is_inside_frame


def test_a_small_frame_that_has_begun_holds_no_buffer() -> None:
    reader, buffers = reader_with()
    assert feed(reader, framed(b"x" * 1000)[:500]) == []
    assert reader.is_inside_frame
    assert buffers.held_bytes == 0
    assert feed(reader, framed(b"x" * 1000)[500:]) == [b"x" * 1000]


def test_a_length_alone_costs_no_memory() -> None:
    reader, buffers = reader_with()
    feed(reader, (90 * MIB).to_bytes(4, "big") + b"x" * 10)
    assert buffers.held_bytes <= FIRST_SIZE


def test_a_large_frame_grows_as_its_bytes_come() -> None:
    reader, buffers = reader_with()
    content = bytes(range(256)) * (3 * MIB // 256)
    frame = framed(content)
    feed(reader, frame[:MIB])
    assert MIB <= buffers.held_bytes <= 2 * MIB + SHARED_SIZE
    assert feed(reader, frame[MIB:]) == [content]
    assert buffers.held_bytes == 0


def test_the_buffer_of_a_large_frame_is_used_again() -> None:
    reader, buffers = reader_with()
    for _ in range(3):
        assert feed(reader, framed(b"x" * MIB)) == [b"x" * MIB]
    pooled = buffers._pool
    assert 1 <= len(pooled) <= MAX_POOLED
    assert all(len(buffer) <= MAX_POOLED_SIZE for buffer in pooled)


def test_a_huge_buffer_is_not_kept() -> None:
    reader, buffers = reader_with()
    feed(reader, framed(bytes(8 * MIB)))
    assert all(len(buffer) <= MAX_POOLED_SIZE for buffer in buffers._pool)
    assert buffers.held_bytes == 0


def test_all_connections_together_hold_no_more_than_is_allowed() -> None:
    buffers = ReceiveBuffers(max_held_bytes=MIB)
    readers = [FrameReader(buffers, max_frame_size=100 * MIB) for _ in range(40)]
    refused = 0
    for reader in readers:
        try:
            feed(reader, (50 * MIB).to_bytes(4, "big") + b"x" * (KEEP_ASIDE_UP_TO + 1))
        except MalformedFrame:
            refused += 1
    assert refused > 0
    assert buffers.held_bytes <= MIB
    for reader in readers:
        reader.release()
    assert buffers.held_bytes == 0


def test_a_frame_that_may_not_grow_any_more_gives_its_buffer_back_when_its_connection_goes() -> None:
    reader, buffers = reader_with(max_held_bytes=MIB)
    with pytest.raises(MalformedFrame):
        feed(reader, framed(bytes(4 * MIB)))
    reader.release()
    assert buffers.held_bytes == 0


def test_a_connection_that_is_closed_by_its_own_request_gives_the_buffer_back() -> None:
    reader, buffers = reader_with()
    frame = framed(b"x" * (KEEP_ASIDE_UP_TO * 2))
    feed(reader, frame[:-1])
    reader.target()[:1] = frame[-1:]
    frames = iter(reader.received(1))
    next(frames)
    reader.release()
    del frames
    assert buffers.held_bytes == 0


@pytest.mark.parametrize("size", [-1, 0, 3, MIB + 1])
def test_a_size_that_cannot_be_is_refused_before_anything_is_kept(size: int) -> None:
    reader, buffers = reader_with(max_frame_size=MIB)
    with pytest.raises(MalformedFrame):
        feed(reader, size.to_bytes(4, "big", signed=True))
    assert buffers.held_bytes == 0


def test_pool_keeps_the_big_buffers_when_small_ones_come_back() -> None:
    buffers = ReceiveBuffers(max_held_bytes=1 << 30)
    taken = [buffers.take(size, at_least=size) for size in (1 << 20, *[1 << 16] * 10)]
    big = taken[0]
    for buffer in [*taken[1:], big]:
        buffers.give(buffer)
    assert buffers.take(1 << 19, at_least=1 << 19) is big
    assert buffers.held_bytes == len(big)
