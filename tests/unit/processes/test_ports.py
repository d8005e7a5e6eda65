import socket
from collections.abc import Sequence

import pytest

from millstream.broker.network.listener import bind_for_clients, listen_for_clients
from millstream.errors import StartupError
from millstream.processes import ports as ports_module
from millstream.processes.ports import Ports

LOOPBACK = "127.0.0.1"


def test_brokers_listen_on_ports_that_are_held_and_no_other_program_does() -> None:
    ports = Ports.take(LOOPBACK, 0, processes=2, is_next_required=False)
    both = [listen_for_clients(LOOPBACK, ports.bootstrap.port, is_shared=True) for _ in range(2)]
    own = listen_for_clients(LOOPBACK, ports.own[1].port, is_shared=True)
    with pytest.raises(StartupError, match="another program uses this port"):
        listen_for_clients(LOOPBACK, ports.bootstrap.port, is_shared=False)
    with pytest.raises(StartupError, match="another program uses this port"):
        Ports.take(LOOPBACK, ports.bootstrap.port, processes=1, is_next_required=False)
    for listening in (*both, own):
        listening.close()
    ports.close()


def test_another_port_is_picked_for_one_that_is_taken_unless_clients_were_promised_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def bind(host: str, port: int, *, reuse: Sequence[int]) -> socket.socket:
        if port:
            raise StartupError(f"{host}:{port} is taken")
        return bind_for_clients(host, port, reuse=reuse)

    def listen(host: str, port: int, *, is_shared: bool) -> socket.socket:
        raise StartupError(f"{host}:{port} is taken, shared {is_shared}")

    monkeypatch.setattr(ports_module, "bind_for_clients", bind)
    monkeypatch.setattr(ports_module, "listen_for_clients", listen)
    ports = Ports.take(LOOPBACK, 0, processes=2, is_next_required=False)
    assert len({ports.bootstrap, *ports.own}) == 3
    ports.close()
    with pytest.raises(StartupError, match="is taken"):
        Ports.take(LOOPBACK, 0, processes=1, is_next_required=True)


def assert_held(ports: Ports) -> None:
    """Neither an ordinary server nor another parent gets any of them."""
    for held in (ports.bootstrap, *ports.own):
        with pytest.raises(OSError, match="in use"):
            socket.create_server(held)
        with pytest.raises(StartupError, match="another program uses this port"):
            Ports.take(*held, processes=0, is_next_required=True)


def test_no_other_program_gets_a_port_whose_broker_is_down() -> None:
    ports = Ports.take(LOOPBACK, 0, processes=1, is_next_required=False)
    assert_held(ports)
    ports.close()


@pytest.mark.parametrize("is_shared", [True, False])
def test_ports_are_to_be_had_at_once_after_a_stop(*, is_shared: bool) -> None:
    """Connections that the former process closed are still known to the kernel (TIME_WAIT)."""
    listening = listen_for_clients(LOOPBACK, 0, is_shared=is_shared)
    listening.setblocking(True)
    port = listening.getsockname()[1]
    with socket.create_connection((LOOPBACK, port)):
        listening.accept()[0].close()
    listening.close()
    ports = Ports.take(LOOPBACK, port, processes=0, is_next_required=False)
    listen_for_clients(LOOPBACK, port, is_shared=True).close()
    if is_shared:
        assert_held(ports)
    ports.close()
