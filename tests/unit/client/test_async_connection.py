import asyncio
import socket
import struct
import threading

import pytest

from millstream.address import Address
from millstream.broker.network.event_loop import BrokerLoop
from millstream.client.async_connection import AsyncConnection
from millstream.client.codecs.metadata import metadata_request
from millstream.client.errors import AnswerTimedOut, BrokerUnavailable
from millstream.errors import UnsupportedVersion
from millstream.wire.api import ApiKey
from millstream.wire.messages import encode_response
from tests.unit.client.peer import answer_api_versions, peer, receive_frame

METADATA = metadata_request([])
SPOKEN = (ApiKey.METADATA, 0, 12)


def metadata_answer(correlation_id: int, *, controller: int) -> bytes:
    reply = {"brokers": [], "topics": [], "controller_id": controller, "throttle_time_ms": 0, "cluster_id": None}
    return encode_response(ApiKey.METADATA, 12, correlation_id=correlation_id, reply=reply)


def stay_silent(connection: socket.socket) -> None:
    answer_api_versions(connection, SPOKEN)
    while receive_frame(connection):
        pass


def close_at_the_first_request(connection: socket.socket) -> None:
    answer_api_versions(connection, SPOKEN)
    receive_frame(connection)


async def test_no_broker_at_the_address_is_an_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BrokerUnavailable, match=f"127.0.0.1:{port}: connection refused; is it running"):
        await AsyncConnection.open(Address("127.0.0.1", port))


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, BrokerLoop])
def test_several_requests_are_under_way_and_each_gets_its_own_answer(loop: type[asyncio.AbstractEventLoop]) -> None:
    def answer_together(connection: socket.socket) -> None:
        answer_api_versions(connection, SPOKEN)
        asked = [struct.unpack_from(">i", receive_frame(connection), 4)[0] for _ in range(3)]
        connection.sendall(b"".join(metadata_answer(correlation_id, controller=correlation_id) for correlation_id in asked))

    async def ask(address: Address) -> None:
        async with await AsyncConnection.open(address) as connection:
            answers = [connection.send(METADATA) for _ in range(3)]
            assert connection.unanswered == 3
            controllers = [(await answer).controller_id for answer in reversed(answers)]
            assert controllers == sorted(controllers, reverse=True)
            assert connection.unanswered == 0

    with peer(answer_together) as address, asyncio.Runner(loop_factory=loop) as runner:
        runner.run(ask(address))


async def test_call_is_called_back_with_the_answer_or_with_what_ended_the_connection() -> None:
    def answer_the_first(connection: socket.socket) -> None:
        answer_api_versions(connection, SPOKEN)
        (correlation_id,) = struct.unpack_from(">i", receive_frame(connection), 4)
        connection.sendall(metadata_answer(correlation_id, controller=3))
        receive_frame(connection)

    with peer(answer_the_first) as address:
        async with await AsyncConnection.open(address) as connection:
            answers, failures = asyncio.Queue[object](), asyncio.Queue[Exception]()
            for _ in range(2):
                connection.call(METADATA, on_answer=answers.put_nowait, on_failure=failures.put_nowait, timeout_s=10)
            async with asyncio.timeout(10):
                assert getattr(await answers.get(), "controller_id", None) == 3
                assert isinstance(await failures.get(), BrokerUnavailable)
            assert connection.is_closed
            with pytest.raises(BrokerUnavailable, match="is closed"):
                connection.call(METADATA, on_answer=answers.put_nowait, on_failure=failures.put_nowait, timeout_s=10)


async def test_a_broker_of_old_is_asked_again_in_its_own_version() -> None:
    def be_old(connection: socket.socket) -> None:
        (correlation_id,) = struct.unpack_from(">i", receive_frame(connection), 4)
        refusal = {"error_code": UnsupportedVersion.code, "api_keys": []}
        connection.sendall(encode_response(ApiKey.API_VERSIONS, 0, correlation_id=correlation_id, reply=refusal))
        answer_api_versions(connection, SPOKEN)
        (correlation_id,) = struct.unpack_from(">i", receive_frame(connection), 4)
        connection.sendall(metadata_answer(correlation_id, controller=5))

    with peer(be_old) as address:
        async with await AsyncConnection.open(address) as connection:
            assert (await connection.send(METADATA)).controller_id == 5


async def test_what_is_under_way_fails_when_the_broker_closes_the_connection() -> None:
    with peer(close_at_the_first_request) as address:
        async with await AsyncConnection.open(address) as connection:
            first, second = connection.send(METADATA), connection.send(METADATA)
            with pytest.raises(BrokerUnavailable, match=r"closed the connection|broke"):
                await first
            assert isinstance(second.exception(), BrokerUnavailable)
            assert connection.is_closed


async def test_the_connection_is_closed_when_an_answer_is_late() -> None:
    with peer(stay_silent) as address:
        async with await AsyncConnection.open(address) as connection:
            patient = connection.send(METADATA)
            with pytest.raises(AnswerTimedOut, match="did not answer in time"):
                await connection.send(METADATA, timeout_s=0.05)
            assert isinstance(patient.exception(), AnswerTimedOut)
            with pytest.raises(BrokerUnavailable, match="is closed"):
                await connection.send(METADATA)


async def test_the_timer_follows_the_requests_that_are_still_unanswered() -> None:
    def answer_the_first(connection: socket.socket) -> None:
        answer_api_versions(connection, SPOKEN)
        (correlation_id,) = struct.unpack_from(">i", receive_frame(connection), 4)
        connection.sendall(metadata_answer(correlation_id, controller=1))
        while receive_frame(connection):
            pass

    with peer(answer_the_first) as address:
        async with await AsyncConnection.open(address) as connection:
            assert (await connection.send(METADATA, timeout_s=0.05)).controller_id == 1
            late = connection.send(METADATA, timeout_s=0.1)
            with pytest.raises(AnswerTimedOut):
                await late


async def test_a_request_that_is_cancelled_closes_the_connection() -> None:
    with peer(stay_silent) as address:
        async with await AsyncConnection.open(address) as connection:
            other = connection.send(METADATA)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await connection.send(METADATA)
            assert connection.is_closed
            assert isinstance(other.exception(), BrokerUnavailable)


@pytest.mark.parametrize("noise", [b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack(">i", 4) + b"none", struct.pack(">i", -1)])
async def test_what_is_no_broker_is_an_error_that_says_so(noise: bytes) -> None:
    def talk_nonsense(connection: socket.socket) -> None:
        receive_frame(connection)
        connection.sendall(noise)

    with peer(talk_nonsense) as address, pytest.raises(BrokerUnavailable, match="does not speak Kafka's protocol"):
        await AsyncConnection.open(address)


async def test_an_answer_above_the_limit_ends_the_connection() -> None:
    def answer_at_length(connection: socket.socket) -> None:
        answer_api_versions(connection, SPOKEN)
        receive_frame(connection)
        connection.sendall(struct.pack(">i", 5000))

    with peer(answer_at_length) as address:
        async with await AsyncConnection.open(address, max_frame_bytes=4000) as connection:
            with pytest.raises(BrokerUnavailable, match="5000 bytes is above the limit of 4000"):
                await connection.send(METADATA)


async def test_an_answer_that_ends_in_the_middle_of_a_field_ends_the_connection() -> None:
    def answer_in_part(connection: socket.socket) -> None:
        answer_api_versions(connection, SPOKEN)
        (correlation_id,) = struct.unpack_from(">i", receive_frame(connection), 4)
        connection.sendall(struct.pack(">iibi", 9, correlation_id, 0, 0))

    with peer(answer_in_part) as address:
        async with await AsyncConnection.open(address) as connection:
            with pytest.raises(BrokerUnavailable, match="does not speak Kafka's protocol"):
                await connection.send(METADATA)


async def test_whoever_waits_gets_an_error_when_the_connection_is_closed() -> None:
    with peer(stay_silent) as address:
        connection = await AsyncConnection.open(address)
        waiting = connection.send(METADATA)
        connection.close()
        with pytest.raises(BrokerUnavailable, match="is closed"):
            await waiting
        await connection.wait_closed()


async def test_nothing_more_is_sent_once_a_send_has_found_the_connection_broken() -> None:
    def reset(connection: socket.socket) -> None:
        answer_api_versions(connection, SPOKEN)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        is_reset.set()

    is_reset = threading.Event()
    with peer(reset) as address:
        async with await AsyncConnection.open(address) as connection:
            is_reset.wait(10)  # asyncio has not seen it: the loop stands still
            first = connection.send(METADATA)
            with pytest.raises(BrokerUnavailable, match="is closed"):
                await connection.send(METADATA)
            with pytest.raises(BrokerUnavailable, match="broke"):
                await first


async def test_a_host_that_cannot_be_one_is_named_in_the_error() -> None:
    with pytest.raises(BrokerUnavailable, match=r"no broker answers at a..b:9092"):
        await AsyncConnection.open(Address("a..b", 9092))
