import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from millstream.address import Address
from millstream.client.codecs.metadata import metadata_request
from millstream.client.connection import Connection
from millstream.client.errors import AnswerTimedOut, BrokerUnavailable
from millstream.wire.api import ApiKey
from millstream.wire.messages import encode_response
from tests.unit.client.peer import answer_api_versions, peer, receive_frame

METADATA = metadata_request([])
SPOKEN = (ApiKey.METADATA, 0, 12)


def stay_silent(connection: socket.socket) -> None:
    answer_api_versions(connection, SPOKEN)
    while receive_frame(connection):
        pass


def test_an_address_without_a_broker_is_named_in_the_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BrokerUnavailable, match=f"127.0.0.1:{port}: connection refused; is it running"):
        Connection(Address("127.0.0.1", port))


def test_a_broker_that_closes_the_connection_is_not_one_that_does_not_answer() -> None:
    def close_at_the_first_request(connection: socket.socket) -> None:
        answer_api_versions(connection, SPOKEN)
        receive_frame(connection)

    with peer(close_at_the_first_request) as address, Connection(address) as connection:
        with pytest.raises(BrokerUnavailable, match="closed the connection"):
            connection.call(METADATA)
        assert connection.is_closed


def test_a_connection_is_closed_when_an_answer_is_late() -> None:
    with peer(stay_silent) as address, Connection(address) as connection:
        with pytest.raises(AnswerTimedOut, match="did not answer in time"):
            connection.call(METADATA, timeout_s=0.05)
        with pytest.raises(BrokerUnavailable, match="is closed"):
            connection.call(METADATA)


class Odd(socket.socket):
    """Behaves, until it is armed."""

    is_armed = False

    def sendmsg(self, *arguments: Any) -> int:
        sent = super().sendmsg(*arguments)
        if self.is_armed:
            raise KeyboardInterrupt
        return sent

    def recv_into(self, buffer: Any, *arguments: Any) -> int:
        if not self.is_armed:
            return super().recv_into(buffer, *arguments)
        buffer[0] = 1
        return 1


@contextmanager
def odd_connection() -> Iterator[tuple[Connection, Odd]]:
    opened = Odd()

    def open_odd(address: Address, timeout_s: float) -> socket.socket:
        opened.connect(address)
        return opened

    with peer(stay_silent) as address, Connection(address, open_socket=open_odd) as connection:
        yield connection, opened


def test_an_answer_that_comes_byte_by_byte_does_not_move_the_deadline() -> None:
    with odd_connection() as (connection, odd):
        pending = connection.send(METADATA)
        odd.is_armed = True
        with pytest.raises(AnswerTimedOut):
            connection.receive(pending, timeout_s=0.01)


def test_an_interrupt_in_the_middle_of_a_request_closes_the_connection() -> None:
    with odd_connection() as (connection, odd):
        odd.is_armed = True
        with pytest.raises(KeyboardInterrupt):
            connection.send(METADATA)
        assert connection.is_closed


@pytest.mark.parametrize("noise", [b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack(">i", 4) + b"none", struct.pack(">i", -1)])
def test_what_is_no_broker_is_an_error_that_says_so(noise: bytes) -> None:
    def talk_nonsense(connection: socket.socket) -> None:
        receive_frame(connection)
        connection.sendall(noise)

    with peer(talk_nonsense) as address, pytest.raises(BrokerUnavailable, match="does not speak Kafka's protocol"):
        Connection(address)


def test_whoever_waits_wakes_up_when_another_thread_closes_the_connection() -> None:
    is_asked = threading.Event()

    def say_that_it_is_asked(connection: socket.socket) -> None:
        answer_api_versions(connection, SPOKEN)
        receive_frame(connection)
        is_asked.set()
        receive_frame(connection)

    with peer(say_that_it_is_asked) as address, Connection(address) as connection:

        def close_when_asked() -> None:
            is_asked.wait(10)
            connection.close()

        closer = threading.Thread(target=close_when_asked)
        closer.start()
        with pytest.raises(BrokerUnavailable):
            connection.call(METADATA)
        closer.join()


def test_a_broker_of_old_is_asked_again_in_its_own_version() -> None:
    def be_old(connection: socket.socket) -> None:
        frame = receive_frame(connection)
        (correlation_id,) = struct.unpack_from(">i", frame, 4)
        refusal = {"error_code": 35, "api_keys": []}
        connection.sendall(encode_response(ApiKey.API_VERSIONS, 0, correlation_id=correlation_id, reply=refusal))
        answer_api_versions(connection, SPOKEN)
        (correlation_id,) = struct.unpack_from(">i", receive_frame(connection), 4)
        reply = {"brokers": [], "topics": [], "controller_id": 5, "throttle_time_ms": 0, "cluster_id": None}
        connection.sendall(encode_response(ApiKey.METADATA, 12, correlation_id=correlation_id, reply=reply))

    with peer(be_old) as address, Connection(address) as connection:
        assert connection.call(METADATA).controller_id == 5
