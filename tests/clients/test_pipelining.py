"""Many requests on one connection, sent before the first is answered: the answers come in the order of the requests."""

import socket

from kio.schema.errors import ErrorCode

from millstream.wire.compression import Codec, compress
from tests.batches import encode_batch, encode_block, encode_record, now_ms
from tests.brokers import Broker
from tests.connection import API_VERSIONS, FETCH, LIST_OFFSETS, METADATA, PRODUCE, encode_request
from tests.topics import create_topic, fetch_fields, produce_fields, produce_values, read_all


def test_requests_sent_together_are_answered_in_order(broker: Broker, topic: str) -> None:
    kinds: list[tuple[int, int, dict[str, object]]] = [
        (API_VERSIONS, 0, {}),
        (METADATA, 12, {"topics": []}),
        (PRODUCE, 9, produce_fields(topic, encode_batch([b"x"]))),
        (LIST_OFFSETS, 7, {"replica_id": -1, "topics": [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]}),
        (FETCH, 12, fetch_fields(topic, 0)),
    ] * 20
    frames = [encode_request(key, version, fields, correlation_id=index) for index, (key, version, fields) in enumerate(kinds)]
    with broker.connect() as connection:
        connection.socket.sendall(b"".join(frames))
        answers = [connection.receive(key, version) for key, version, _ in kinds]
    assert [correlation_id for correlation_id, _ in answers] == list(range(100))
    assert [answer.topics[0].partitions[0].offset for _, answer in answers[3::5]] == list(range(1, 21))


def test_pipelined_batches_are_appended_in_order(broker: Broker, topic: str) -> None:
    frames = [
        encode_request(PRODUCE, 9, produce_fields(topic, encode_batch([b"%d" % index])), correlation_id=index) for index in range(200)
    ]
    with broker.connect() as connection:
        connection.socket.sendall(b"".join(frames))
        for index in range(200):
            correlation_id, answer = connection.receive(PRODUCE, 9)
            assert (correlation_id, answer.responses[0].partition_responses[0].base_offset) == (index, index)
    assert [record.value for record in read_all(broker, topic)] == [b"%d" % index for index in range(200)]


def test_large_batch_keeps_its_place_though_a_refused_one_before_it_is_done(broker: Broker, topic: str) -> None:
    """Both take several turns of the broker's loop: the end of the first is no sign to go on behind the second."""
    compacted = create_topic(broker, configs={"cleanup.policy": "compact"})
    late = encode_batch([b"from the future"], timestamp=now_ms() + 10**9)
    large = encode_keyed(30_000)
    batches = [(topic, encode_batch([b"first"])), (topic, late), (compacted, large), (compacted, encode_batch([b"last"], keys=[b"k"]))]
    with broker.connect() as connection:
        connection.ask(PRODUCE, 9, produce_fields(topic, encode_batch([b"opens the lane"])))
        connection.socket.sendall(b"".join(encode_request(PRODUCE, 9, produce_fields(*batch)) for batch in batches))
        answers = [connection.receive(PRODUCE, 9)[1].responses[0].partition_responses[0] for _ in batches]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [
        (0, 1),
        (ErrorCode.invalid_timestamp, -1),
        (0, 0),
        (0, 30_000),
    ]


def encode_keyed(count: int) -> bytes:
    """A batch that takes few bytes: what follows it is received together with it."""
    records = b"".join(encode_record(number, b"", key=b"k") for number in range(count))
    return encode_block(compress(records, Codec.ZSTD), count, timestamp=now_ms(), max_timestamp=now_ms(), attributes=Codec.ZSTD)


def test_request_behind_a_waiting_fetch_is_answered_after_it(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        connection.send(FETCH, 12, fetch_fields(topic, 0, max_wait_ms=60_000))
        connection.send(METADATA, 12, {"topics": []})
        produce_values(broker, topic, [b"wakes it up"])
        assert connection.receive(FETCH, 12)[0] == 1
        assert connection.receive(METADATA, 12)[0] == 2


def test_produce_without_acks_has_no_answer(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        for _ in range(3):
            connection.send(PRODUCE, 9, produce_fields(topic, encode_batch([b"x"]), acks=0))
        last = connection.send(METADATA, 12, {"topics": []})
        assert connection.receive(METADATA, 12)[0] == last
    assert len(read_all(broker, topic)) == 3


def test_frame_that_comes_byte_by_byte_is_understood(broker: Broker, topic: str) -> None:
    frame = encode_request(PRODUCE, 9, produce_fields(topic, encode_batch([b"slowly"]))) + encode_request(METADATA, 12, {"topics": []})
    with broker.connect() as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for index in range(len(frame)):
            connection.socket.sendall(frame[index : index + 1])
        assert connection.receive(PRODUCE, 9)[1].responses[0].partition_responses[0].error_code == ErrorCode.none
        connection.receive(METADATA, 12)
    assert [record.value for record in read_all(broker, topic)] == [b"slowly"]


def test_client_that_reads_late_gets_all_its_answers(broker: Broker, topic: str) -> None:
    """The answers do not fit into the socket's buffers, so the broker has to wait for the reader."""
    produce_values(broker, topic, [bytes(100_000)] * 10, batch_size=1)
    with broker.connect() as connection:
        for _ in range(40):
            connection.send(FETCH, 12, fetch_fields(topic, 0, max_bytes=1 << 20))
        for index in range(40):
            correlation_id, answer = connection.receive(FETCH, 12)
            assert correlation_id == index + 1
            assert len(answer.responses[0].partitions[0].records) >= 1_000_000
