import os
import socket
from pathlib import Path
from unittest.mock import patch

import pytest

from millstream.broker.network.outbox import MAX_SENDFILE, Chunk, Outbox
from millstream.files import Files
from millstream.log.region import FileRegion
from tests.unit.broker.conftest import Ends


def region_of(path: Path, content: bytes, *, position: int = 0) -> FileRegion:
    path.write_bytes(bytes(position) + content)
    return FileRegion(Files().open(path), position, len(content))


def receive_while_draining(outbox: Outbox, client: socket.socket, size: int) -> bytes:
    received = bytearray()
    client.setblocking(False)
    while len(received) < size:
        outbox.drain()
        try:
            received += client.recv(1 << 20)
        except BlockingIOError:
            continue
    return bytes(received)


def test_bytes_and_regions_leave_in_their_order(ends: Ends, tmp_path: Path) -> None:
    outbox = Outbox(ends.broker)
    outbox.extend([b"<", b"<", region_of(tmp_path / "a", b"one", position=7), b"|", region_of(tmp_path / "b", b"two"), b">"])
    assert outbox.queued_bytes == 10
    assert outbox.drain()
    assert ends.client.recv(100) == b"<<one|two>"
    assert (outbox.queued_bytes, bool(outbox)) == (0, False)


def test_regions_are_sent_by_sendfile_and_small_pieces_in_one_call(ends: Ends, tmp_path: Path) -> None:
    outbox = Outbox(ends.broker)
    with patch.object(os, "sendfile", wraps=os.sendfile) as sendfile:
        outbox.extend([b"a", b"b", region_of(tmp_path / "a", b"c" * 1000)])
        assert outbox.drain()
    assert sendfile.call_count == 1
    assert ends.client.recv(10_000) == b"ab" + b"c" * 1000


def test_what_the_socket_does_not_take_is_sent_later_without_a_gap(ends: Ends, tmp_path: Path) -> None:
    outbox = Outbox(ends.broker)
    big = os.urandom(3_000_000)
    filed = os.urandom(2_500_000)
    chunks: list[Chunk] = [
        b"begin",
        big,
        region_of(tmp_path / "a", filed, position=11),
        b"middle",
        big[:5],
        region_of(tmp_path / "b", filed),
        b"end",
    ]
    expected = b"begin" + big + filed + b"middle" + big[:5] + filed + b"end"
    outbox.extend(chunks)
    assert outbox.queued_bytes == len(expected)
    assert not outbox.drain()
    assert 0 < outbox.queued_bytes < len(expected)
    assert receive_while_draining(outbox, ends.client, len(expected)) == expected
    assert outbox.queued_bytes == 0


def test_large_pieces_are_not_copied_together(ends: Ends) -> None:
    outbox = Outbox(ends.broker)
    pieces = [bytes([number]) * 50_000 for number in range(100)]
    outbox.extend(pieces)
    assert not outbox.drain()
    # Whatever is left, at most two of the pieces were joined: the rest still are the objects that were queued.
    assert sum(chunk is piece for chunk, piece in zip(reversed(outbox._chunks), reversed(pieces), strict=False)) >= len(outbox._chunks) - 1
    assert receive_while_draining(outbox, ends.client, 5_000_000) == b"".join(pieces)


def test_a_fast_reader_does_not_keep_the_loop_to_itself(ends: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []

    def swallow(_out: int, _in: int, _position: int, count: int) -> int:
        sent.append(count)
        return count

    monkeypatch.setattr(os, "sendfile", swallow)
    outbox = Outbox(ends.broker)
    outbox.extend([region_of(tmp_path / "a", bytes(16 * MAX_SENDFILE))])
    turns = 1
    while not outbox.drain():
        turns += 1
    assert (sum(sent), max(sent), turns) == (16 * MAX_SENDFILE, MAX_SENDFILE, 4)


def test_a_region_that_the_file_does_not_have_any_more_is_an_error_and_not_silence(ends: Ends, tmp_path: Path) -> None:
    region = region_of(tmp_path / "a", b"short")
    outbox = Outbox(ends.broker)
    outbox.extend([region._replace(position=5)])
    with pytest.raises(OSError, match="shorter"):
        outbox.drain()


def test_a_peer_that_is_gone_is_an_error(ends: Ends) -> None:
    outbox = Outbox(ends.broker)
    ends.client.close()
    outbox.extend([b"hello"])
    with pytest.raises(BrokenPipeError):
        outbox.drain()


def test_a_cleared_outbox_has_nothing_to_send(ends: Ends, tmp_path: Path) -> None:
    outbox = Outbox(ends.broker)
    outbox.extend([b"a", region_of(tmp_path / "a", b"b")])
    outbox.clear()
    assert outbox.drain()
    assert outbox.queued_bytes == 0
