"""However a stream of frames is cut, and whoever takes turns: the same frames come out, and all memory comes back."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.broker.network.frame_reader import KEEP_ASIDE_UP_TO, FrameReader, ReceiveBuffers
from tests.unit.broker.network.test_frame_reader import framed

MAX_HELD = 4 * 1024 * 1024
SIZES = st.one_of(st.integers(4, 40), st.integers(KEEP_ASIDE_UP_TO - 3, KEEP_ASIDE_UP_TO + 3), st.integers(4, 200_000), st.just(600_000))
FRAMES = st.lists(SIZES, max_size=8)
CUTS = st.lists(st.one_of(st.integers(1, 12), st.integers(1, 70_000)), min_size=1, max_size=30)


class Peer:
    """One connection: what it will send, and what came out of its reader."""

    def __init__(self, buffers: ReceiveBuffers, sizes: list[int], *, seed: int) -> None:
        self.reader = FrameReader(buffers, max_frame_size=1 << 20)
        self.sent = [
            bytes((seed + number + index) % 251 for index in range(min(size, 64))).ljust(size, b".") for number, size in enumerate(sizes)
        ]
        self.rest = b"".join(map(framed, self.sent))
        self.received: list[bytes] = []

    def receive(self, limit: int) -> None:
        target = self.reader.target()
        count = min(limit, len(self.rest), len(target))
        if count == 0:
            assert not self.rest, "a target without room"
            return
        target[:count] = self.rest[:count]
        self.rest = self.rest[count:]
        self.received += [bytes(frame) for frame in self.reader.received(count)]


@given(FRAMES, FRAMES, CUTS)
def test_any_cut_of_any_frames_gives_the_same_frames(one: list[int], other: list[int], cuts: list[int]) -> None:
    buffers = ReceiveBuffers(max_held_bytes=MAX_HELD)
    peers = [Peer(buffers, one, seed=1), Peer(buffers, other, seed=99)]
    number = 0
    while any(peer.rest for peer in peers):
        for peer in peers:
            # The last cut is large, so that an example ends.
            peer.receive(cuts[number] if number < len(cuts) else 1 << 20)
            number += 1
            assert 0 <= buffers.held_bytes <= MAX_HELD
    for peer in peers:
        assert peer.received == peer.sent
        assert not peer.reader.is_inside_frame
    assert buffers.held_bytes == 0


@given(FRAMES, CUTS)
def test_whenever_a_connection_goes_it_leaves_no_memory_behind(sizes: list[int], cuts: list[int]) -> None:
    buffers = ReceiveBuffers(max_held_bytes=MAX_HELD)
    peer = Peer(buffers, sizes, seed=5)
    for cut in cuts:
        peer.receive(cut)
    peer.reader.release()
    assert buffers.held_bytes == 0
    assert peer.received == peer.sent[: len(peer.received)]
