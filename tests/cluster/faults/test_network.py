"""The proxies do what their links are set to: to new connections and to open ones, and to the link that is meant only."""

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.cluster.faults.network import CLIENTS, SILENT, Condition, Link, Network
from tests.waiting import wait_until

TO_ECHO = Link(CLIENTS, "echo")
QUIET_S = 0.2


def echo(listener: socket.socket) -> None:
    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(ConnectionResetError):
            while data := connection.recv(1000):
                connection.sendall(data.upper())

    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    yield network
    network.close()


@pytest.fixture
def port(network: Network) -> Iterator[int]:
    """The port of a proxy before a server that answers in capitals."""
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=echo, args=(listener,), daemon=True)
    thread.start()
    yield network.add("echo", listener.getsockname()[1])
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)


@pytest.fixture
def client(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"one")
        assert connection.recv(100) == b"ONE"
        yield connection


def is_quiet(client: socket.socket) -> bool:
    client.settimeout(QUIET_S)
    try:
        return client.recv(100, socket.MSG_PEEK) is None
    except TimeoutError:
        return True
    finally:
        client.settimeout(30)


@pytest.mark.parametrize("condition", [SILENT, Condition(holds_requests=True), Condition(holds_answers=True)])
def test_what_is_held_arrives_when_the_link_is_good_again(network: Network, client: socket.socket, condition: Condition) -> None:
    network.set([TO_ECHO], condition)
    client.sendall(b"two")
    assert is_quiet(client)
    network.heal()
    assert client.recv(100) == b"TWO"


def test_a_new_connection_over_a_held_link_is_accepted_and_silent(network: Network, port: int) -> None:
    network.set([TO_ECHO], SILENT)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(b"two")
        assert is_quiet(client)
        network.heal()
        assert client.recv(100) == b"TWO"


def test_a_cut_ends_open_connections_and_refuses_new_ones(network: Network, client: socket.socket, port: int) -> None:
    network.set([TO_ECHO], Condition(is_cut=True))
    with pytest.raises(ConnectionResetError):
        client.recv(100)
    with pytest.raises(ConnectionResetError), socket.create_connection(("127.0.0.1", port), timeout=30) as another:
        another.recv(100)
    wait_until(lambda: not network.links(), "the link has no connection")


def test_a_slow_link_delivers(network: Network, client: socket.socket) -> None:
    network.set([TO_ECHO], Condition(delay_s=0.05))
    client.sendall(b"two")
    assert client.recv(100) == b"TWO"


def test_a_server_that_is_not_there_resets_the_connection(network: Network) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        gone = unused.getsockname()[1]
    behind = network.add("gone", gone)
    with pytest.raises(ConnectionResetError), socket.create_connection(("127.0.0.1", behind), timeout=30) as client:
        client.recv(100)


def test_links_are_told_apart_by_the_process_that_connects(network: Network, port: int, client: socket.socket) -> None:
    program = "import socket,sys; c = socket.create_connection(('127.0.0.1', int(sys.stdin.readline()))); c.sendall(b'x'); print(c.recv(9))"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    network.began(process.pid, "broker-1")
    network.set([Link("broker-1", "echo")], SILENT)
    assert process.stdin is not None
    process.stdin.write(b"%d\n" % port)
    process.stdin.flush()
    wait_until(lambda: Link("broker-1", "echo") in network.links(), "the process is connected")
    client.sendall(b"two")
    assert client.recv(100) == b"TWO", "the link of the clients is not the one that is held"
    assert process.poll() is None
    network.heal()
    assert process.communicate(timeout=30)[0] == b"b'X'\n"
    network.ended(process.pid)
