"""MirrorAppend at a real broker: what a mirrored topic takes, and what it refuses."""

import subprocess
from collections.abc import Iterator
from uuid import UUID

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from millstream.client.connection import Connection
from millstream.errors import OffsetOutOfRange, PolicyViolation, RecordListTooLarge, UnknownTopicId
from millstream.wire.api import ApiKey
from millstream.wire.frames import encode_request_header
from millstream.wire.primitives import INT32
from tests.batches import encode_batch, split_batches
from tests.brokers import IS_KAFKA, Broker, StartBroker
from tests.connection import API_VERSIONS, DELETE_RECORDS, INIT_PRODUCER_ID, ConnectionEnded
from tests.mirror.appending import SOURCE, mirror_append, mirrored_batch, own_connection
from tests.mirror.mirror_process import MILLSTREAM
from tests.topics import EARLIEST, LATEST, create_topic, fetch, list_offset, produce, read_all, set_option, topic_id

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="Kafka does not have this request")

TRANSACTIONAL = 16


@pytest.fixture
def mirror(broker: Broker) -> Iterator[Connection]:
    with own_connection(broker) as connection:
        yield connection


@pytest.fixture
def mirrored(broker: Broker) -> str:
    """A topic that is a mirror."""
    return create_topic(broker, configs={"mirror.source": SOURCE})


def test_batches_are_fetched_as_they_came_but_for_the_leader_epoch(broker: Broker, mirror: Connection, mirrored: str) -> None:
    batches = [mirrored_batch(b"a", b"b", at=700), mirrored_batch(b"c", at=900, producer_id=2**40, producer_epoch=1, base_sequence=5)]
    answer = mirror_append(mirror, topic_id(broker, mirrored), *batches, expected_end=0)
    assert answer[:4] == (0, 0, 901, 700)
    with broker.connect() as connection:
        stored = [batch for _, batch in split_batches(fetch(connection, mirrored, 700).records)]
        offsets = [list_offset(connection, mirrored, time).offset for time in (EARLIEST, LATEST)]
    assert [batch[:12] + batch[16:] for batch in stored] == [batch[:12] + batch[16:] for batch in batches]
    assert ({batch[12:16] for batch in stored}, offsets) == ({bytes(4)}, [700, 901])


def test_a_mirror_that_was_replaced_is_refused_and_told_where_the_log_ends(broker: Broker, mirror: Connection, mirrored: str) -> None:
    own_id = topic_id(broker, mirrored)
    assert mirror_append(mirror, own_id, mirrored_batch(b"a", at=0), expected_end=0).error_code == 0
    again = mirror_append(mirror, own_id, mirrored_batch(b"a", at=0), expected_end=0)
    assert (again.error_code, again.log_end_offset) == (OffsetOutOfRange.code, 1)
    asked = mirror_append(mirror, own_id, expected_end=-1)
    assert (asked.error_code, asked.log_end_offset, len(read_all(broker, mirrored))) == (0, 1, 1)


def test_nothing_but_a_mirror_of_its_source_writes_to_a_mirrored_topic(broker: Broker, mirror: Connection, mirrored: str) -> None:
    own_id = topic_id(broker, mirrored)
    mirror_append(mirror, own_id, mirrored_batch(b"a", at=0), expected_end=0)
    with broker.connect() as connection:
        refused = produce(connection, mirrored, encode_batch([b"x"]))
        deleted = connection.ask(
            DELETE_RECORDS, 2, {"topics": [{"name": mirrored, "partitions": [{"partition_index": 0, "offset": 1}]}], "timeout_ms": 9000}
        )
    assert refused.error_code == ErrorCode.policy_violation
    assert "promote it first" in refused.error_message
    assert deleted.topics[0].partitions[0].error_code == ErrorCode.policy_violation
    other = mirror_append(mirror, own_id, mirrored_batch(b"b", at=1), expected_end=1, source="another/1/orders")
    assert (other.error_code, len(read_all(broker, mirrored))) == (PolicyViolation.code, 1)


def test_who_writes_to_a_mirrored_topic_by_the_command_is_told_to_promote_it(broker: Broker, mirrored: str) -> None:
    done = subprocess.run(
        [MILLSTREAM, "produce", mirrored, "x", "-b", broker.bootstrap_servers], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "read-only until `millstream mirror promote`" in done.stderr


def test_a_topic_that_is_no_mirror_takes_no_mirrored_batches(broker: Broker, mirror: Connection) -> None:
    topic = create_topic(broker)
    refused = mirror_append(mirror, topic_id(broker, topic), mirrored_batch(b"a", at=0), expected_end=0, source="")
    assert (refused.error_code, read_all(broker, topic)) == (PolicyViolation.code, [])
    gone = mirror_append(mirror, UUID(int=99), expected_end=-1)
    assert gone.error_code == UnknownTopicId.code


def test_a_topic_is_promoted_by_its_last_request_and_the_removal_of_the_option(broker: Broker, mirror: Connection, mirrored: str) -> None:
    own_id = topic_id(broker, mirrored)
    open_one = mirrored_batch(b"a", at=5, attributes=TRANSACTIONAL, producer_id=12_345, producer_epoch=0, base_sequence=0)
    last = mirror_append(mirror, own_id, open_one, expected_end=0, is_last=True)
    assert last == (0, 0, 8, 5, 12_345, None), "an abort marker and the end of all mirrored producers follow"
    set_option(broker, mirrored, "mirror.source", None)
    with broker.connect() as connection:
        produced = produce(connection, mirrored, encode_batch([b"b"]))
        taken = connection.ask(INIT_PRODUCER_ID, 4, {"transactional_id": None, "transaction_timeout_ms": 1000})
    assert (produced.error_code, produced.base_offset) == (0, 8)
    assert taken.producer_id > 12_345
    zombie = mirror_append(mirror, own_id, mirrored_batch(b"c", at=9), expected_end=9)
    assert zombie.error_code == PolicyViolation.code


def test_many_bytes_come_in_several_requests_and_a_large_batch_in_one(broker: Broker, mirror: Connection, mirrored: str) -> None:
    own_id = topic_id(broker, mirrored)
    large = mirrored_batch(b"x" * 5_000_000, at=0)
    two = mirror_append(mirror, own_id, large, mirrored_batch(b"a", at=1), expected_end=0)
    assert (two.error_code, two.log_end_offset) == (RecordListTooLarge.code, -1)
    assert mirror_append(mirror, own_id, large, expected_end=0)[:3] == (0, 0, 1)
    small = [mirrored_batch(b"x", at=offset) for offset in range(1, 1002)]
    assert mirror_append(mirror, own_id, *small, expected_end=1).error_code == RecordListTooLarge.code
    assert mirror_append(mirror, own_id, *small[:1000], expected_end=1)[:3] == (0, 0, 1001)


def test_only_clients_of_our_own_hear_of_it_and_may_ask(broker: Broker) -> None:
    def announced(name: str) -> bool:
        with broker.connect() as connection:
            answer = connection.ask(API_VERSIONS, 3, {"client_software_name": name, "client_software_version": "1"})
            return ApiKey.MIRROR_APPEND in {entry.api_key for entry in answer.api_keys}

    assert (announced("millstream"), announced("librdkafka")) == (True, False)
    with broker.connect() as connection:
        request = encode_request_header(ApiKey.MIRROR_APPEND, 0, correlation_id=1, client_id="me") + bytes(9)
        connection.socket.sendall(INT32.pack(len(request)) + request)
        with pytest.raises(ConnectionEnded):
            connection.receive_frame()


def test_what_was_mirrored_outlives_kill_9_and_goes_on(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker, configs={"mirror.source": SOURCE})
    own_id = topic_id(broker, topic)
    with own_connection(broker) as mirror:
        for number in range(3):
            batch = mirrored_batch(b"%d" % number, at=50 + number * 10)
            mirror_append(mirror, own_id, batch, expected_end=0 if not number else 41 + number * 10)
    broker.kill()
    broker.start()
    with own_connection(broker) as mirror:
        asked = mirror_append(mirror, own_id, expected_end=-1)
        assert (asked.log_start_offset, asked.log_end_offset) == (50, 71)
        assert mirror_append(mirror, own_id, mirrored_batch(b"3", at=71), expected_end=71).error_code == 0
    assert [record.offset for record in read_all(broker, topic, offset=50)] == [50, 60, 70, 71]


def test_a_record_of_a_producer_whose_id_a_mirrored_one_had_is_written_after_the_promotion(broker: Broker, mirrored: str) -> None:
    """Both clusters count ids from 0: the record was acknowledged as a repetition of the mirrored one, and dropped."""
    own = create_topic(broker)
    local = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    local.produce(own, b"gets an id")
    assert local.flush(30) == 0
    with broker.connect() as connection:
        [(header, _)] = split_batches(fetch(connection, own, 0).records)
    same = {"producer_id": header.producer_id, "producer_epoch": header.producer_epoch, "base_sequence": 0}
    with own_connection(broker) as mirror:
        mirror_append(mirror, topic_id(broker, mirrored), mirrored_batch(b"mirrored", at=0, **same), expected_end=0, is_last=True)
    set_option(broker, mirrored, "mirror.source", None)
    local.produce(mirrored, b"own")
    assert local.flush(30) == 0
    assert [record.value for record in read_all(broker, mirrored, offset=2)] == [b"own"]
