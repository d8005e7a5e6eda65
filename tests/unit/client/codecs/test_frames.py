from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millstream.client.codecs.frames import RECEIVE_BYTES, AnswerFrames
from millstream.errors import MalformedFrame
from millstream.wire.primitives import INT32

CONTENTS = [b"four", b"a" * 100, b"b" * (RECEIVE_BYTES + 5), b"five5", b"c" * (3 * RECEIVE_BYTES)]
SENT = b"".join(INT32.pack(len(content)) + content for content in CONTENTS)


@pytest.mark.parametrize("most", [1, 3, 1000, RECEIVE_BYTES])
def test_frames_come_whole_and_in_order_however_the_bytes_arrive(most: int) -> None:
    frames, found, position = AnswerFrames(), [], 0
    while position < len(SENT):
        target = frames.target()
        piece = SENT[position : position + min(most, len(target))]
        target[: len(piece)] = piece
        found += frames.received(len(piece))
        position += len(piece)
    assert found == CONTENTS


def test_a_frame_that_has_begun_is_received_into_memory_of_its_own() -> None:
    frames = AnswerFrames()
    frames.target()[:8] = INT32.pack(1_000_000) + b"abcd"
    assert frames.received(8) == []
    assert len(frames.target()) == 1_000_000 - 4
    frames.target()[:] = bytes(1_000_000 - 4)
    [frame] = frames.received(1_000_000 - 4)
    assert bytes(frame[:5]) == b"abcd\x00"


def test_a_frame_above_the_limit_is_malformed_before_memory_is_taken_for_it() -> None:
    frames = AnswerFrames(max_frame_bytes=1000)
    frames.target()[:4] = INT32.pack(1001)
    with pytest.raises(MalformedFrame, match="limit of 1000"):
        frames.received(4)


def test_a_large_frame_takes_memory_only_as_its_bytes_come() -> None:
    def resident_pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    frames, before = AnswerFrames(), resident_pages()
    frames.target()[:4] = INT32.pack(1 << 30)
    assert frames.received(4) == []
    assert len(frames.target()) == 1 << 30
    assert resident_pages() - before < 10_000, "pages of 4 kB"


def receive_large(frames: AnswerFrames, content: bytes) -> memoryview:
    """One frame that comes in two pieces."""
    frames.target()[:4] = INT32.pack(len(content))
    assert frames.received(4) == []
    frames.target()[:] = content
    [frame] = frames.received(len(content))
    return frame


def test_memory_is_used_again_only_when_nothing_refers_to_it() -> None:
    frames, others = AnswerFrames(keeps_memory=True), AnswerFrames(keeps_memory=True)
    first = receive_large(frames, b"a" * 5_000_000)
    part = first[10:20]
    del first
    second = receive_large(others, b"b" * 4_900_000)
    assert bytes(part) == b"a" * 10
    owner = id(part.obj)
    assert id(second.obj) != owner
    del part
    third = receive_large(frames, b"c" * 4_950_000)
    assert id(third.obj) == owner
    assert bytes(second) == b"b" * 4_900_000
    assert bytes(third) == b"c" * 4_950_000


def test_frames_that_are_all_held_stay_as_they_are() -> None:
    frames = AnswerFrames(keeps_memory=True)
    held = [receive_large(frames, bytes([number]) * 300_000) for number in range(12)]
    assert [bytes(frame) for frame in held] == [bytes([number]) * 300_000 for number in range(12)]


def test_threads_never_share_a_frame() -> None:
    def read(number: int) -> int:
        frames, content = AnswerFrames(keeps_memory=True), bytes([number]) * 300_000
        return sum(bytes(receive_large(frames, content)) == content for _ in range(200))

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(read, range(6))) == [200] * 6
