"""Every version of every API that the broker offers is answered with bytes that mean something, and nothing is left over."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.index import api_key_map

from tests.batches import encode_batch
from tests.brokers import Broker
from tests.clients.test_api_versions import KAFKA_4_2, advertised
from tests.connection import API_VERSIONS, Connection, ConnectionEnded, encode_request, versions_known_to_kio
from tests.topics import create_topic, fresh_name, topic_id

NOT_SHOWN_BY_AN_EMPTY_REQUEST = {24, 27, 29, 38, 39, 40}
"""Transactions, access rules and tokens: Kafka leaves an empty request of these unanswered, or answers with times that kio refuses."""
ANSWERED_ALL_THE_SAME = {API_VERSIONS, 71, 72}
"""ApiVersions has an answer for versions it does not know, and Kafka answers telemetry without offering it."""


def requests(api_key: int, topic: str, identity: UUID, node: int) -> dict[str, Any]:
    """A request that does something for the APIs that have one; the others are sent empty."""
    name = {"name": topic, "topic_id": None}
    batch = encode_batch([b"x"])
    by_key: dict[int, dict[str, Any]] = {
        0: {
            "acks": -1,
            "timeout_ms": 1000,
            "topic_data": [{"name": topic, "topic_id": identity, "partition_data": [{"index": 0, "records": batch}]}],
        },
        1: {
            "max_bytes": 1 << 20,
            "max_wait_ms": 0,
            "topics": [{"topic": topic, "topic_id": identity, "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}],
        },
        2: {"replica_id": -1, "topics": [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
        3: {"topics": [name]},
        10: {"key": "group", "coordinator_keys": ["group"]},
        18: {"client_software_name": "tests", "client_software_version": "1"},
        19: {"topics": [{"name": fresh_name(), "num_partitions": 1, "replication_factor": 1}]},
        20: {"topics": [{"name": fresh_name(), "topic_id": None}], "topic_names": [fresh_name()]},
        21: {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}]},
        22: {"transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1},
        23: {"replica_id": -1, "topics": [{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
        32: {"resources": [{"resource_type": 2, "resource_name": topic}, {"resource_type": 4, "resource_name": str(node)}]},
        33: {"resources": [{"resource_type": 2, "resource_name": topic, "configs": [{"name": "retention.ms", "value": "1000000"}]}]},
        35: {"topics": None},
        37: {"topics": [{"name": topic, "count": 1}]},
        44: {"resources": [{"resource_type": 2, "resource_name": topic, "configs": [{"name": "retention.ms", "value": "2000000"}]}]},
        61: {"topics": [{"name": topic, "partition_indexes": [0, 1]}]},
        75: {"topics": [{"name": topic}], "response_partition_limit": 10},
    }
    return by_key.get(api_key, {})


@pytest.fixture(scope="module")
def offered(broker: Broker) -> dict[int, tuple[int, int]]:
    return advertised(broker)


def ask_every_version(broker: Broker, api_key: int, versions: tuple[int, int]) -> None:
    """Every byte of each answer must be understood, which `ask` makes sure of."""
    topic = create_topic(broker)
    identity = topic_id(broker, topic)
    known = versions_known_to_kio(api_key)
    for version in range(max(versions[0], known.start), min(versions[1] + 1, known.stop)):
        with broker.connect() as connection:
            connection.ask(api_key, version, requests(api_key, topic, identity, 1))


@pytest.mark.parametrize("api_key", KAFKA_4_2, ids=lambda key: api_key_map[key])
def test_every_version_is_answered_with_something_that_can_be_read(
    broker: Broker, offered: dict[int, tuple[int, int]], api_key: int
) -> None:
    ask_every_version(broker, api_key, offered[api_key])


def test_every_version_of_whatever_else_is_offered_is_answered(broker: Broker, offered: dict[int, tuple[int, int]]) -> None:
    for api_key in offered.keys() - KAFKA_4_2.keys() - NOT_SHOWN_BY_AN_EMPTY_REQUEST:
        ask_every_version(broker, api_key, offered[api_key])


@pytest.mark.parametrize("api_key", sorted(api_key_map.keys() - ANSWERED_ALL_THE_SAME), ids=lambda key: api_key_map[key])
def test_version_that_is_not_offered_closes_the_connection(broker: Broker, offered: dict[int, tuple[int, int]], api_key: int) -> None:
    highest = offered.get(api_key, (0, -1))[1]
    with broker.connect() as connection:
        frame = bytearray(encode_request(api_key, versions_known_to_kio(api_key)[-1], {}))
        frame[6:8] = (highest + 1).to_bytes(2, "big")
        connection.socket.sendall(frame)
        assert connection.is_ended_by_peer()
    with broker.connect() as other:
        assert other.ask(API_VERSIONS, 0).error_code == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_versions_that_are_offered_only_in_name_close_the_connection(broker: Broker, version: int) -> None:
    """Kafka offers Produce 0-2 because old librdkafka turns compression off otherwise, and answers none of them."""
    body = b"\x00\x00" + version.to_bytes(2, "big") + b"\x00\x00\x00\x01\xff\xff" + b"\x00\x01\x00\x00\x03\xe8\x00\x00\x00\x00"
    with broker.connect() as connection:
        connection.socket.sendall(len(body).to_bytes(4, "big") + body)
        with pytest.raises(ConnectionEnded):
            connection.receive_frame()


def test_api_key_that_does_not_exist_closes_the_connection(broker: Broker) -> None:
    for api_key in (4242, 32767, -1):
        body = api_key.to_bytes(2, "big", signed=True) + b"\x00\x00\x00\x00\x00\x01\xff\xff"
        connection = Connection(broker.address)
        connection.socket.sendall(len(body).to_bytes(4, "big") + body)
        assert connection.is_ended_by_peer()
        connection.close()
