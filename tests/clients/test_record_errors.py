"""Which records of a refused batch are to blame (KIP-467): as Kafka names them, to raw requests and to librdkafka."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kio.schema.errors import ErrorCode

from millstream.wire.compression import Codec, compress
from tests.batches import encode_batch, encode_block, encode_record, now_ms
from tests.brokers import Broker
from tests.topics import create_topic, list_offset, produce
from tests.waiting import DEADLINE_S

BAD = {"cleanup.policy": "compact"}
STEP_MS = 40 * 60_000
"""Of two steps one is within the hour that is allowed."""


@pytest.fixture(scope="module")
def compacted(broker: Broker) -> str:
    return create_topic(broker, configs=BAD)


def keys(*present: int, count: int = 6) -> list[bytes | None]:
    return [b"k%d" % number if number in present else None for number in range(count)]


def with_codec(codec: Codec, keys: list[bytes | None]) -> bytes:
    records = b"".join(encode_record(number, b"v", key=key) for number, key in enumerate(keys))
    return encode_block(compress(records, codec), len(keys), timestamp=now_ms(), max_timestamp=now_ms(), attributes=codec)


def named(answer: Any) -> list[int]:
    return [error.batch_index for error in answer.record_errors]


@pytest.mark.parametrize("version", [3, 7])
def test_before_version_8_a_batch_is_refused_as_a_whole(broker: Broker, compacted: str, version: int) -> None:
    with broker.connect() as connection:
        answer = produce(connection, compacted, encode_batch([b"v"] * 6, keys=keys(0, 2)), version=version)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.invalid_record, -1)
        assert not hasattr(answer, "record_errors")


@pytest.mark.parametrize("version", [8, 9, 12])
@pytest.mark.parametrize("codec", Codec)
def test_records_without_a_key_are_named(broker: Broker, compacted: str, version: int, codec: Codec) -> None:
    with broker.connect() as connection:
        before = list_offset(connection, compacted, -1).offset
        answer = produce(connection, compacted, with_codec(codec, keys(0, 2, 3)), version=version)
        assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (ErrorCode.invalid_record, -1, 0)
        assert named(answer) == [1, 4, 5]
        assert all("key" in error.batch_index_error_message for error in answer.record_errors)
        assert "3" in answer.error_message
        assert list_offset(connection, compacted, -1).offset == before


def test_records_of_a_wrong_time_are_named(broker: Broker, topic: str) -> None:
    batch = encode_batch([b"a", b"b", b"c", b"d"], timestamp_step=STEP_MS)
    with broker.connect() as connection:
        answer = produce(connection, topic, batch, version=8)
        assert (answer.error_code, answer.log_start_offset, named(answer)) == (ErrorCode.invalid_timestamp, 0, [2, 3])
        assert "imestamp" in answer.record_errors[0].batch_index_error_message
        assert produce(connection, topic, batch, version=7).error_code == ErrorCode.invalid_timestamp


def test_one_wrong_time_among_missing_keys_makes_it_an_error_of_times(broker: Broker, compacted: str) -> None:
    late = encode_batch([b"a", b"b", b"c"], keys=[None, b"k", b"k"], timestamp_step=STEP_MS)
    with broker.connect() as connection:
        answer = produce(connection, compacted, late)
        assert (answer.error_code, named(answer)) == (ErrorCode.invalid_timestamp, [0, 2])
        keyless = encode_batch([b"a", b"b", b"c"], keys=[b"k", b"k", None], timestamp_step=STEP_MS)
        answer = produce(connection, compacted, keyless)
        assert (answer.error_code, named(answer)) == (ErrorCode.invalid_record, [2])


def test_a_good_batch_has_no_record_errors(broker: Broker, compacted: str) -> None:
    with broker.connect() as connection:
        answer = produce(connection, compacted, encode_batch([b"v"] * 6, keys=keys(*range(6))))
        assert (answer.error_code, answer.record_errors, answer.error_message) == (ErrorCode.none, (), None)


def test_librdkafka_distinguishes_bad_records_from_those_that_failed_with_them(broker: Broker) -> None:
    """As its own test 0011 has it: one batch of which ten records have no key. Only the full batch is sent, however long that takes."""
    topic = create_topic(broker, configs=BAD)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 60_000, "batch.num.messages": 100})
    outcome: dict[int, int] = {}
    for number in range(100):

        def delivered(error: Any, _message: object, number: int = number) -> None:
            outcome[number] = error.code()

        producer.produce(topic, value=b"v", key=None if number % 10 == 3 else b"k", partition=0, on_delivery=delivered)
    assert producer.flush(DEADLINE_S) == 0
    different = KafkaError._INVALID_DIFFERENT_RECORD
    assert outcome == {number: KafkaError.INVALID_RECORD if number % 10 == 3 else different for number in range(100)}
