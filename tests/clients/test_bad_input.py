"""Bytes that are no Kafka requests, or lie about themselves: the connection is closed, the broker and all others go on."""

import socket
import struct
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.batches import encode_batch
from tests.brokers import IS_KAFKA, Broker, StartBroker
from tests.connection import API_VERSIONS, CREATE_TOPICS, FETCH, METADATA, PRODUCE, Connection, ConnectionEnded, encode_request
from tests.topics import create_topic, fetch_fields, produce, produce_fields
from tests.waiting import wait_until

TLS_HELLO = bytes.fromhex("16030102000100 01fc0303".replace(" ", "")) + bytes(500)
HTTP_REQUEST = b"GET / HTTP/1.1\r\nHost: broker.example\r\n\r\n"
MAX_FRAME = 104_857_600

pytestmark = pytest.mark.usefixtures("unbothered")


def frame(body: bytes, *, claimed: int | None = None) -> bytes:
    return struct.pack(">i", len(body) if claimed is None else claimed) + body


def request(api_key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    """A frame with a right header around any body."""
    header = struct.pack(">hhih", api_key, version, 1, 5) + b"tests" + (b"\x00" if flexible else b"")
    return frame(header + body)


ENDS_THE_CONNECTION = {
    "size 2147483647": frame(b"", claimed=2**31 - 1),
    "size -1": frame(b"", claimed=-1),
    "size -2147483648": frame(b"", claimed=-(2**31)),
    "size 0": frame(b""),
    "size above the limit": frame(b"x" * 100, claimed=MAX_FRAME + 1),
    "too short for a header": frame(b"abcde"),
    "TLS hello": TLS_HELLO,
    "HTTP request": HTTP_REQUEST,
    "text": b"hello, is this the broker?\n",
    "zeros": bytes(1000),
    "ones": b"\xff" * 1000,
    "body that ends too early": request(METADATA, 12, b"\x05", flexible=True),
    "client id longer than the frame": frame(struct.pack(">hhih", METADATA, 1, 1, 32000) + b"abc"),
    "array of 2147483647 topics": request(METADATA, 1, struct.pack(">i", 2**31 - 1), flexible=False),
    "compact array of 4294967294 topics": request(METADATA, 12, b"\xff\xff\xff\xff\x0f", flexible=True),
    "varint without an end": request(METADATA, 12, b"\xff" * 50, flexible=True),
    "2147483647 tagged fields": frame(struct.pack(">hhih", METADATA, 12, 1, 5) + b"tests" + b"\xff\xff\xff\xff\x07"),
    "tagged field longer than the frame": frame(struct.pack(">hhih", METADATA, 12, 1, 5) + b"tests" + b"\x01\x05\xff\xff\xff\x07"),
    "2147483647 topics to produce to": request(PRODUCE, 3, struct.pack(">hhii", -1, 1, 1000, 2**31 - 1), flexible=False),
    "records longer than the frame": request(
        PRODUCE, 3, struct.pack(">hhiih1siii", -1, 1, 1000, 1, 1, b"t", 1, 0, 2**31 - 1), flexible=False
    ),
    "2147483647 topics to fetch": request(FETCH, 4, struct.pack(">iiiibi", -1, 0, 0, 1000, 0, 2**31 - 1), flexible=False),
    "2147483647 topics to create": request(CREATE_TOPICS, 2, struct.pack(">i", 2**31 - 1), flexible=False),
    "name that is not UTF-8": request(METADATA, 1, struct.pack(">ih", 1, 2) + b"\xff\xfe", flexible=False),
}
NOT_CLOSED_BY_KAFKA = {"name that is not UTF-8"}


@pytest.mark.parametrize("case", ENDS_THE_CONNECTION)
def test_bytes_that_are_no_request_end_their_connection_only(broker: Broker, case: str) -> None:
    if IS_KAFKA and case in NOT_CLOSED_BY_KAFKA:
        pytest.skip("Kafka reads such a name with replacement characters")
    with broker.connect() as connection:
        connection.socket.sendall(ENDS_THE_CONNECTION[case])
        assert connection.is_ended_by_peer()


@pytest.mark.skipif(IS_KAFKA, reason="what is logged is Millstream's own")
@pytest.mark.parametrize(("sent", "word"), [(TLS_HELLO, "TLS"), (HTTP_REQUEST, "HTTP"), (frame(b"", claimed=-1), "127.0.0.1")])
def test_what_was_wrong_stands_in_the_log(broker: Broker, sent: bytes, word: str) -> None:
    before = len(broker.output)
    with broker.connect() as connection:
        connection.socket.sendall(sent)
        assert connection.is_ended_by_peer()
    wait_until(lambda: word in broker.output[before:], f"{word} in the log")


@pytest.mark.parametrize("length", [1, 3, 4, 5, 14, 40])
def test_client_that_leaves_in_the_middle_of_a_frame_is_forgotten(broker: Broker, topic: str, length: int) -> None:
    whole = encode_request(PRODUCE, 9, produce_fields(topic, encode_batch([b"never"])))
    for _ in range(20):
        with broker.connect() as connection:
            connection.socket.sendall(whole[:length])


def test_client_that_leaves_while_it_waits_is_forgotten(broker: Broker, topic: str) -> None:
    for _ in range(20):
        with broker.connect() as connection:
            connection.send(FETCH, 12, fetch_fields(topic, 0, max_wait_ms=60_000))
    with broker.connect() as connection:
        assert produce(connection, topic, encode_batch([b"x"])).error_code == ErrorCode.none


def test_client_that_resets_its_connection_is_forgotten(broker: Broker, topic: str) -> None:
    for _ in range(20):
        connection = broker.connect()
        connection.send(FETCH, 12, fetch_fields(topic, 0, max_wait_ms=60_000))
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


def test_half_a_frame_holds_up_no_other_client(broker: Broker, topic: str) -> None:
    whole = encode_request(PRODUCE, 9, produce_fields(topic, encode_batch([b"late"])))
    with broker.connect() as slow, broker.connect() as quick:
        slow.socket.sendall(whole[:50])
        assert produce(quick, topic, encode_batch([b"early"])).base_offset == 0
        slow.socket.sendall(whole[50:])
        assert slow.receive(PRODUCE, 9)[1].responses[0].partition_responses[0].base_offset == 1


def test_bytes_after_the_request_do_no_harm(broker: Broker) -> None:
    with broker.connect() as connection:
        whole = encode_request(API_VERSIONS, 0, {})
        connection.socket.sendall(frame(whole[4:] + b"xyz"))
        with suppress(ConnectionEnded):  # refusing them is right as well
            assert connection.receive(API_VERSIONS, 0)[1].error_code == ErrorCode.none


def test_hundreds_of_connections_that_say_nothing_leave_no_trace(broker: Broker) -> None:
    for _ in range(8):
        connections = [socket.create_connection(broker.address) for _ in range(50)]
        for connection in connections:
            connection.close()


def test_descriptors_of_ended_connections_are_given_back(broker: Broker) -> None:
    descriptors = Path(f"/proc/{broker.pid}/fd")
    before = len(list(descriptors.iterdir()))
    for sent in [TLS_HELLO, b"", encode_request(API_VERSIONS, 0, {})] * 30:
        with broker.connect() as connection:
            connection.socket.sendall(sent)
    wait_until(lambda: len(list(descriptors.iterdir())) <= before + 5, "descriptors given back")


@pytest.mark.skipif(IS_KAFKA, reason="Kafka allocates what a frame claims")
def test_frames_that_only_claim_to_be_big_cost_no_memory(start_broker: StartBroker) -> None:
    own = start_broker()
    before = own.resident_bytes()
    with ExitStack() as open_connections:
        for _ in range(200):
            connection = open_connections.enter_context(own.connect())
            connection.socket.sendall(frame(b"\x00\x00\x00\x09" + bytes(10_000), claimed=90_000_000))
        with own.connect() as other:
            assert other.ask(API_VERSIONS, 0).error_code == ErrorCode.none
        assert own.resident_bytes() - before < 64 << 20


@pytest.mark.skipif(IS_KAFKA, reason="the memory of a JVM says little")
def test_clients_that_never_read_their_answers_cost_bounded_memory(start_broker: StartBroker) -> None:
    own = start_broker()
    topic = create_topic(own)
    with own.connect() as connection:
        for _ in range(10):
            assert produce(connection, topic, encode_batch([bytes(1_000_000)])).error_code == ErrorCode.none
    before = own.resident_bytes()
    ask = encode_request(FETCH, 12, fetch_fields(topic, 0, max_bytes=10_000_000))
    with ExitStack() as silent:
        for _ in range(20):
            _send_until_refused(silent.enter_context(own.connect(timeout_s=0.5)), ask * 50)
        with own.connect() as other:
            assert other.ask(API_VERSIONS, 0).error_code == ErrorCode.none
        assert own.resident_bytes() - before < 128 << 20


def _send_until_refused(connection: Connection, data: bytes) -> None:
    """As many bytes as the broker is willing to take."""
    try:
        connection.socket.sendall(data)
    except TimeoutError:
        return


def test_garbage_from_many_clients_at_once_leaves_the_memory_bounded(broker: Broker) -> None:
    before = broker.resident_bytes()
    for _ in range(10):
        for sent in ENDS_THE_CONNECTION.values():
            with broker.connect() as connection:
                connection.socket.sendall(sent)
    with broker.connect() as connection:
        assert connection.ask(API_VERSIONS, 0).error_code == ErrorCode.none
    assert broker.resident_bytes() - before < 64 << 20
