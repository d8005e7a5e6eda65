"""Produce requests that are well formed around batches that are not: the right error code, nothing stored, the connection goes on."""

from typing import Any

import cramjam
import pytest
from kio.schema.errors import ErrorCode

from millstream.wire.compression import Codec, compress
from tests.batches import encode_batch, encode_block, encode_record, now_ms, varint
from tests.brokers import Broker, KafkaBroker, StartBroker
from tests.clients.client import Client
from tests.clients.group_requests import await_coordinator
from tests.connection import PRODUCE, Connection
from tests.topics import create_topic, fresh_name, list_offset, produce, produce_fields, read_all

GOOD = encode_batch([b"a", b"b"])
HOUR_MS = 3_600_000


def batch(**fields: Any) -> bytes:
    """Two records with some fields of the header changed, and the CRC right unless it is one of them."""
    return encode_batch([b"a", b"b"], **fields)


CORRUPT, INVALID = ErrorCode.corrupt_message, ErrorCode.invalid_record
REFUSED: dict[str, tuple[bytes, ErrorCode, int]] = {
    "wrong CRC": (batch(crc=1), CORRUPT, -1),
    "length too short": (batch(length=40), CORRUPT, -1),
    "length beyond the bytes given": (batch(length=1000), INVALID, -1),
    "negative length": (batch(length=-5), CORRUPT, -1),
    "length 0": (batch(length=0), CORRUPT, -1),
    "magic 0": (batch(magic=0), INVALID, -1),
    "magic 1": (batch(magic=1), INVALID, -1),
    "magic 3": (batch(magic=3), CORRUPT, -1),
    "more records claimed": (batch(record_count=3), INVALID, 0),
    "fewer records claimed": (batch(record_count=1), INVALID, 0),
    "no records": (encode_block(b"", 0, timestamp=now_ms(), max_timestamp=now_ms()), INVALID, 0),
    "negative count": (batch(record_count=-5, last_offset_delta=-6), INVALID, 0),
    "last offset delta": (batch(last_offset_delta=9), INVALID, 0),
    "base offset": (batch(base_offset=5), INVALID, 0),
    "control batch": (batch(attributes=0x20), INVALID, 0),
    "two batches": (GOOD + GOOD, INVALID, -1),
    "a batch and zeros": (GOOD + bytes(61), CORRUPT, -1),
    "zeros": (bytes(61), CORRUPT, -1),
    "a few bytes": (b"abc", INVALID, -1),
    "no bytes": (b"", INVALID, -1),
    "half a batch": (GOOD[:40], INVALID, -1),
    "garbage": (b"\xff" * 100, CORRUPT, -1),
    "time in the future": (batch(timestamp=now_ms() + 100 * HOUR_MS), ErrorCode.invalid_timestamp, 0),
    "bigger than max.message.bytes": (encode_batch([bytes(1_100_000)]), ErrorCode.message_too_large, -1),
}
"""What is sent, the error, and the log start in the answer: -1 where Kafka does not look at the log."""


@pytest.mark.parametrize("case", REFUSED)
def test_bad_batch_is_refused_with_its_code_and_the_next_one_is_not(broker: Broker, topic: str, case: str) -> None:
    bad, code, log_start_offset = REFUSED[case]
    with broker.connect() as connection:
        answer = produce(connection, topic, bad)
        assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (code, -1, log_start_offset)
        assert produce(connection, topic, GOOD).base_offset == 0
    assert [record.value for record in read_all(broker, topic)] == [b"a", b"b"]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_refused(broker: Broker, topic: str, codec: int) -> None:
    with broker.connect() as connection:
        assert produce(connection, topic, batch(attributes=codec)).error_code != ErrorCode.none
        assert list_offset(connection, topic, -1).offset == 0


def test_transactional_batch_outside_a_transaction_is_refused(broker: Broker, topic: str) -> None:
    transactional = batch(attributes=0x10, producer_id=1, producer_epoch=0, base_sequence=0)
    with broker.connect() as connection:
        answer = produce(connection, topic, transactional)
        assert (answer.error_code, answer.log_start_offset) == (ErrorCode.transactional_id_authorization_failed, -1)
        assert list_offset(connection, topic, -1).offset == 0


@pytest.mark.parametrize("acks", [2, -2])
def test_acks_that_do_not_exist_are_refused_for_what_could_be_written(broker: Broker, topic: str, acks: int) -> None:
    missing = fresh_name()
    partitions = [{"index": 0, "records": GOOD}, {"index": 50, "records": GOOD}]
    topics = [{"name": topic, "partition_data": partitions}, {"name": missing, "partition_data": partitions[:1]}]
    with broker.connect() as connection:
        answer = connection.ask(PRODUCE, 9, {"transactional_id": None, "acks": acks, "timeout_ms": 10_000, "topic_data": topics})
        codes = {(one.name, part.index): part.error_code for one in answer.responses for part in one.partition_responses}
        assert codes == {
            (topic, 0): ErrorCode.invalid_required_acks,
            (topic, 50): ErrorCode.unknown_topic_or_partition,
            (missing, 0): ErrorCode.unknown_topic_or_partition,
        }
        empty = connection.ask(PRODUCE, 9, produce_fields(topic, b"") | {"acks": acks})
        assert empty.responses[0].partition_responses[0].error_code == INVALID


def test_refused_batch_among_pipelined_ones_is_answered_with_the_log_start(broker: Broker, topic: str) -> None:
    """Requests that look alike go together; what is refused among them is answered as it is alone."""
    with broker.connect() as connection:
        for records in (GOOD, GOOD, batch(base_offset=5), b"\x00" * 61):
            connection.send(PRODUCE, 9, produce_fields(topic, records))
        answers = [connection.receive(PRODUCE, 9)[1].responses[0].partition_responses[0] for _ in range(4)]
    assert [(one.error_code, one.log_start_offset) for one in answers] == [(0, 0), (0, 0), (INVALID, 0), (CORRUPT, -1)]


@pytest.mark.parametrize("version", [3, 6])
def test_zstd_is_refused_before_produce_7(broker: Broker, topic: str, version: int) -> None:
    with broker.connect() as connection:
        assert produce(connection, topic, zstd_batch([b"a"]), version=version).error_code == ErrorCode.unsupported_compression_type
        assert produce(connection, topic, zstd_batch([b"a"]), version=7).error_code == ErrorCode.none


def zstd_batch(values: list[bytes]) -> bytes:
    block = bytes(cramjam.zstd.compress(b"".join(encode_record(index, value, key=b"k") for index, value in enumerate(values))))
    return encode_block(block, len(values), timestamp=now_ms(), max_timestamp=now_ms(), attributes=4)


@pytest.mark.parametrize("acks", [2, -2, 127])
def test_acks_that_do_not_exist_are_refused(broker: Broker, topic: str, acks: int) -> None:
    with broker.connect() as connection:
        assert produce(connection, topic, GOOD, acks=acks).error_code == ErrorCode.invalid_required_acks
        assert list_offset(connection, topic, -1).offset == 0


def test_unknown_topics_and_partitions_are_answered_one_by_one(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        unknown = ErrorCode.unknown_topic_or_partition
        assert produce(connection, fresh_name(), GOOD).error_code == unknown
        assert produce(connection, "not allowed!", GOOD).error_code == unknown
        for partition in (1, -1, 2**31 - 1):
            assert produce(connection, topic, GOOD, partition=partition).error_code == unknown
        partitions = [{"index": index, "records": GOOD} for index in (0, 5)]
        fields = produce_fields(topic, None) | {"topic_data": [{"name": topic, "partition_data": partitions}]}
        answer = connection.ask(PRODUCE, 9, fields).responses[0].partition_responses
        assert {one.index: one.error_code for one in answer} == {0: ErrorCode.none, 5: unknown}


@pytest.mark.parametrize("bad", ["wrong CRC", "unknown topic"])
def test_error_without_acks_closes_the_connection(broker: Broker, topic: str, bad: str) -> None:
    """The only way to tell a producer that asked for no answer."""
    fields = produce_fields(topic, batch(crc=1), acks=0) if bad == "wrong CRC" else produce_fields(fresh_name(), GOOD, acks=0)
    with broker.connect() as connection:
        connection.send(PRODUCE, 9, fields)
        assert connection.is_ended_by_peer()


def test_record_without_a_key_is_refused_on_a_compacted_topic(broker: Broker) -> None:
    topic = create_topic(broker, configs={"cleanup.policy": "compact"})
    with broker.connect() as connection:
        answer = produce(connection, topic, encode_batch([b"a", b"b"], keys=[b"k", None]))
        assert answer.error_code == ErrorCode.invalid_record
        assert produce(connection, topic, zstd_batch([b"a"])).error_code == ErrorCode.none
        assert list_offset(connection, topic, -1).offset == 1


def test_batch_bigger_than_a_segment_is_refused(broker: Broker) -> None:
    topic = create_topic(broker, configs={"segment.bytes": 1 << 20, "max.message.bytes": 5_000_000})
    with broker.connect() as connection:
        assert produce(connection, topic, encode_batch([bytes(2_000_000)])).error_code == ErrorCode.record_list_too_large


def test_max_message_bytes_is_obeyed_as_soon_as_it_is_changed(broker: Broker) -> None:
    topic = create_topic(broker, configs={"max.message.bytes": len(GOOD)})
    with broker.connect() as connection:
        assert produce(connection, topic, GOOD).error_code == ErrorCode.none
        assert produce(connection, topic, encode_batch([b"a", b"bc"])).error_code == ErrorCode.message_too_large


def damaged_inside(codec: int) -> bytes:
    return encode_block(b"\xff" * 300, 2, timestamp=now_ms(), max_timestamp=now_ms(), attributes=codec)


@pytest.mark.parametrize("codec", range(5))
def test_garbage_in_the_place_of_records_is_refused_and_consumers_go_on(broker: Broker, topic: str, client: Client, codec: int) -> None:
    """The CRC is right. Stored, it would stop every consumer at its offset for good."""
    with broker.connect() as connection:
        assert produce(connection, topic, GOOD).base_offset == 0
        assert produce(connection, topic, damaged_inside(codec)).error_code in (INVALID, ErrorCode.unknown_server_error)
        assert produce(connection, topic, GOOD).base_offset == 2
    with client.reader(broker, topic) as reader:
        assert [message.value for message in reader.read(4)] == [b"a", b"b", b"a", b"b"]


RECORDS = [encode_record(number, b"v%d" % number, key=b"k") for number in range(3)]
WRONG_RECORDS = {
    "a record too few": RECORDS[:2],
    "a record too many": [*RECORDS, encode_record(3, b"x", key=b"k")],
    "bytes left over": [*RECORDS, b"\x00\x00\x00"],
    "cut off": [*RECORDS[:2], RECORDS[2][:-2]],
    "a key that does not fit": [*RECORDS[:2], varint(8) + b"\x00\x00" + varint(2) + varint(200) + b"k\x02v"],
    "headers that are not there": [*RECORDS[:2], varint(8) + b"\x00\x00" + varint(2) + varint(1) + b"k\x02v" + varint(50)],
}


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("wrong", WRONG_RECORDS)
def test_records_that_do_not_add_up_are_refused_where_they_are_checked(checked: str, broker: Broker, wrong: str, codec: Codec) -> None:
    with broker.connect() as connection:
        before = list_offset(connection, checked, -1).offset
        answer = produce(connection, checked, block(b"".join(WRONG_RECORDS[wrong]), codec))
        assert (answer.error_code, answer.record_errors) == (INVALID, ())
        assert produce(connection, checked, block(b"".join(RECORDS), codec)).base_offset == before


def test_block_that_breaks_off_in_the_middle_is_refused_where_records_are_checked(checked: str, broker: Broker) -> None:
    with broker.connect() as connection:
        for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
            whole = compress(bytes(5_000) + b"".join(RECORDS), codec)
            batch = encode_block(whole[:12] + b"\xff" * 40, 3, timestamp=now_ms(), max_timestamp=now_ms(), attributes=codec)
            assert produce(connection, checked, batch).error_code in (INVALID, ErrorCode.unknown_server_error)


@pytest.fixture(scope="module")
def checked(broker: Broker) -> str:
    """A topic whose records are checked; in Kafka that is every one."""
    return create_topic(broker, configs={} if isinstance(broker, KafkaBroker) else {"check.records": "true"})


def block(records: bytes, codec: Codec) -> bytes:
    return encode_block(compress(records, codec), 3, timestamp=now_ms(), max_timestamp=now_ms(), attributes=codec)


def bomb() -> bytes:
    block = bytes(cramjam.zstd.compress(encode_record(0, bytes(300 << 20), key=b"k")))
    return encode_block(block, 1, timestamp=now_ms(), max_timestamp=now_ms(), attributes=4)


@pytest.mark.parametrize("config", [{}, {"cleanup.policy": "compact"}, {"compression.type": "lz4"}], ids=str)
@pytest.mark.parametrize("codec", range(5))
def test_batch_that_is_wrong_only_inside_does_no_harm(broker: Broker, config: dict[str, object], codec: int) -> None:
    """Whether it is refused (Kafka reads every record) or stored as its producer made it, the partition goes on."""
    topic = create_topic(broker, configs=config)
    with broker.connect() as connection:
        first = produce(connection, topic, damaged_inside(codec))
        assert produce(connection, topic, encode_batch([b"good"], keys=[b"k"])).base_offset == (2 if first.error_code == 0 else 0)
        if "cleanup.policy" in config:
            assert first.error_code != ErrorCode.none


def test_batch_that_grows_without_bound_when_decompressed_is_refused(broker: Broker, unbothered: Connection) -> None:
    topic = create_topic(broker, configs={"cleanup.policy": "compact"})
    before = broker.resident_bytes()
    with broker.connect() as connection:
        produce(connection, topic, bomb())
        assert produce(connection, topic, encode_batch([b"good"], keys=[b"k"])).error_code == ErrorCode.none
    assert broker.resident_bytes() - before < 200 << 20


def test_very_many_empty_gzip_streams_are_no_work_for_whoever_asks_by_time(broker: Broker, topic: str, unbothered: Connection) -> None:
    """52 000 of them took a second of the loop; now they are given up after the first thousand."""
    streams = encode_block(compress(b"", Codec.GZIP) * 52_000, 2, timestamp=now_ms(), max_timestamp=now_ms(), attributes=1)
    with broker.connect() as connection:
        stored = produce(connection, topic, streams).error_code == ErrorCode.none
        assert list_offset(connection, topic, 1).offset == (0 if stored else -1)


def test_topic_of_the_broker_that_comes_later_is_not_written_by_a_client_that_was_there_before(start_broker: StartBroker) -> None:
    """A request that was refused because the topic did not exist opens no lane into it."""
    own = start_broker(offsets_topic_num_partitions=1)
    with own.connect() as connection:
        assert produce(connection, "__consumer_offsets", GOOD).error_code != ErrorCode.none
        await_coordinator(own)
        assert [produce(connection, "__consumer_offsets", GOOD).error_code for _ in range(3)] == [ErrorCode.invalid_topic_exception] * 3
