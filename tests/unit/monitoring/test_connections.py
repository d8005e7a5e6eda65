import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from millstream.monitoring import connections as module
from millstream.monitoring.connections import Connections

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    """Both ends of some connections: the server's, the client's."""
    with ExitStack() as stack:
        made = [socket.socketpair() for _ in range(4)]
        for end in (end for pair in made for end in pair):
            end.settimeout(0)
            stack.enter_context(end)
        yield made


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAVES_S", 0)


def is_closed(pair: Pair) -> bool:
    try:
        return pair[1].recv(1) == b""
    except BlockingIOError:
        return False


def test_the_connection_that_waits_longest_makes_room(pairs: list[Pair]) -> None:
    connections = Connections(3)
    for server, _ in pairs[:3]:
        assert connections.admit(server)
    # The first one has asked something since the others came.
    connections.note_request(pairs[0][0])
    connections.note_answer(pairs[0][0])
    # The thread of the one that is closed has not ended yet, and until then there is no place.
    assert not connections.admit(pairs[3][0])
    assert [is_closed(pair) for pair in pairs] == [False, True, False, False]
    connections.leave(pairs[1][0])
    assert connections.admit(pairs[3][0])


def test_who_is_being_answered_goes_last_and_who_does_not_read_first_of_them(pairs: list[Pair]) -> None:
    connections = Connections(3)
    for server, _ in pairs[:3]:
        assert connections.admit(server)
    connections.note_request(pairs[1][0])
    connections.note_request(pairs[0][0])
    connections.admit(pairs[3][0])
    assert [is_closed(pair) for pair in pairs[:3]] == [False, False, True]
    connections.admit(pairs[3][0])
    assert [is_closed(pair) for pair in pairs[:3]] == [False, True, True]


def test_a_connection_that_has_closed_itself_meanwhile_is_passed_over(pairs: list[Pair]) -> None:
    connections = Connections(1)
    assert connections.admit(pairs[0][0])
    pairs[0][0].close()
    assert not connections.admit(pairs[1][0])
    connections.leave(pairs[0][0])
    assert connections.admit(pairs[1][0])
