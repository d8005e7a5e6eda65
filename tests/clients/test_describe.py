"""What clients may ask about the cluster: coordinators, cluster, topics page by page, log directories, configs, errors per topic."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import IS_KAFKA, Broker
from tests.clients.group_requests import CONSUMER_GROUP_DESCRIBE, DESCRIBE_GROUPS, OFFSET_FETCH, await_coordinator
from tests.connection import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_TOPIC_PARTITIONS,
    FIND_COORDINATOR,
    METADATA,
)
from tests.topics import create_topic, fresh_name, produce_values
from tests.waiting import wait_until


@pytest.mark.parametrize("version", range(7))
def test_this_broker_coordinates_every_group(broker: Broker, version: int) -> None:
    """librdkafka switches LZ4 on when it sees this API, and looks its coordinator up even when it only assigns."""
    with broker.connect() as connection:

        def ask() -> Any:
            answer = connection.ask(FIND_COORDINATOR, version, {"key": "group", "key_type": 0, "coordinator_keys": ["group"]})
            found = answer.coordinators[0] if version >= 4 else answer
            return found if found.error_code == ErrorCode.none else None

        found = wait_until(ask, "a coordinator")
        assert (found.host, found.port) == broker.address


@pytest.mark.parametrize("version", range(3))
def test_cluster_is_one_node(broker: Broker, version: int) -> None:
    with broker.connect() as connection:
        answer = connection.ask(DESCRIBE_CLUSTER, version, {"include_cluster_authorized_operations": True, "endpoint_type": 1})
    assert [(node.host, node.port) for node in answer.brokers] == [broker.address]
    assert answer.controller_id == answer.brokers[0].broker_id


@pytest.mark.parametrize(("endpoint_type", "error"), [(2, ErrorCode.mismatched_endpoint_type), (3, ErrorCode.unsupported_endpoint_type)])
def test_addresses_other_than_those_of_brokers_are_refused(broker: Broker, endpoint_type: int, error: ErrorCode) -> None:
    with broker.connect() as connection:
        answer = connection.ask(DESCRIBE_CLUSTER, 1, {"include_cluster_authorized_operations": False, "endpoint_type": endpoint_type})
    assert (answer.error_code, answer.brokers, answer.cluster_id, answer.endpoint_type) == (error, (), "", 1)


@pytest.mark.parametrize("version", range(14))
def test_metadata_is_the_same_at_every_version(broker: Broker, version: int) -> None:
    topic = create_topic(broker, partitions=2)
    with broker.connect() as connection:
        answer = connection.ask(METADATA, version, {"topics": [{"name": topic, "topic_id": None}]})
    (node,) = answer.brokers
    assert (node.host, node.port) == broker.address
    (found,) = answer.topics
    assert (found.name, found.error_code) == (topic, ErrorCode.none)
    for index, partition in enumerate(sorted(found.partitions, key=lambda one: one.partition_index)):
        assert (partition.partition_index, partition.leader_id) == (index, node.node_id)
        assert (partition.replica_nodes, partition.isr_nodes) == ((node.node_id,), (node.node_id,))


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_all_topics_and_of_none(broker: Broker, topic: str, version: int) -> None:
    with broker.connect() as connection:
        everything = connection.ask(METADATA, version, {"topics": [] if version == 0 else None})
        assert topic in {found.name for found in everything.topics}
        if version > 0:
            assert connection.ask(METADATA, version, {"topics": []}).topics == ()


def test_topics_are_described_page_by_page_in_order_of_name(broker: Broker) -> None:
    stem = fresh_name("paged")
    names = [create_topic(broker, name=f"{stem}-{letter}", partitions=3) for letter in "cab"]
    seen: list[tuple[str, int]] = []
    cursor: dict[str, object] | None = None
    with broker.connect() as connection:
        for _ in range(10):
            fields = {"topics": [{"name": name} for name in names], "response_partition_limit": 2, "cursor": cursor}
            answer = connection.ask(DESCRIBE_TOPIC_PARTITIONS, 0, fields)
            page = [(found.name, partition.partition_index) for found in answer.topics for partition in found.partitions]
            assert len(page) <= 2
            seen += page
            if answer.next_cursor is None:
                break
            cursor = {"topic_name": answer.next_cursor.topic_name, "partition_index": answer.next_cursor.partition_index}
    assert seen == [(name, index) for name in sorted(names) for index in range(3)]


def test_unknown_topic_is_described_as_unknown(broker: Broker) -> None:
    with broker.connect() as connection:
        fields = {"topics": [{"name": fresh_name()}], "response_partition_limit": 10, "cursor": None}
        (found,) = connection.ask(DESCRIBE_TOPIC_PARTITIONS, 0, fields).topics
    assert found.error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("index", [0, -1])
def test_page_cannot_begin_at_a_topic_that_is_not_asked_for_or_before_its_first_partition(broker: Broker, topic: str, index: int) -> None:
    other = topic + "-other"
    cursor = {"topic_name": other if index == 0 else topic, "partition_index": index}
    with broker.connect() as connection:
        fields = {"topics": [{"name": topic}, {"name": "missing"}], "response_partition_limit": 10, "cursor": cursor}
        answer = connection.ask(DESCRIBE_TOPIC_PARTITIONS, 0, fields)
    assert [(one.name, one.error_code) for one in answer.topics] == [
        (topic, ErrorCode.invalid_request),
        ("missing", ErrorCode.invalid_request),
    ]


def test_full_page_ends_before_a_topic_that_is_not_there(broker: Broker) -> None:
    topic = create_topic(broker, partitions=2)
    names = [topic, topic + "-missing", topic + "-none"]
    with broker.connect() as connection:
        fields = {"topics": [{"name": name} for name in names], "response_partition_limit": 2, "cursor": None}
        answer = connection.ask(DESCRIBE_TOPIC_PARTITIONS, 0, fields)
        assert [one.name for one in answer.topics] == [topic]
        assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == (names[1], 0)
        rest = connection.ask(DESCRIBE_TOPIC_PARTITIONS, 0, fields | {"cursor": {"topic_name": names[1], "partition_index": 0}})
    assert [(one.name, one.topic_authorized_operations) for one in rest.topics] == [(names[1], 3576), (names[2], 3576)]


def test_name_that_no_topic_can_have_is_described_as_such(broker: Broker) -> None:
    with broker.connect() as connection:
        fields = {"topics": [{"name": "a b"}], "response_partition_limit": 10, "cursor": None}
        assert connection.ask(DESCRIBE_TOPIC_PARTITIONS, 0, fields).topics[0].error_code == ErrorCode.invalid_topic_exception


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_topic_id_counts_where_a_name_is_given_too_and_is_refused_before_version_12(broker: Broker, topic: str, version: int) -> None:
    nobody = UUID(int=77)
    asked = {"topics": [{"name": topic, "topic_id": nobody}], "include_topic_authorized_operations": True}
    with broker.connect() as connection:
        (found,) = connection.ask(METADATA, version, asked).topics
    expected = (ErrorCode.invalid_request, topic) if version < 12 else (ErrorCode.unknown_topic_id, None)
    assert (found.error_code, found.name, found.topic_id, found.topic_authorized_operations) == (*expected, nobody, -2147483648)


@pytest.mark.parametrize("version", range(1, 5))
def test_log_directory_has_the_size_of_a_partition(broker: Broker, topic: str, version: int) -> None:
    produce_values(broker, topic, [b"x" * 1000])
    with broker.connect() as connection:
        answer = connection.ask(DESCRIBE_LOG_DIRS, version, {"topics": [{"topic": topic, "partitions": [0]}]})
    (directory,) = answer.results
    assert (directory.error_code, directory.log_dir) == (ErrorCode.none, str(broker.data))
    (partition,) = directory.topics[0].partitions
    assert partition.partition_size == sum(file.stat().st_size for file in broker.partition_directory(topic).glob("*.log"))
    assert (partition.offset_lag, partition.is_future_key) == (0, False)
    if version >= 4:
        assert directory.total_bytes >= directory.usable_bytes > 0


def test_each_topic_to_create_is_answered_by_itself(broker: Broker, topic: str) -> None:
    good = fresh_name()
    wanted = [
        {"name": good, "num_partitions": 2, "replication_factor": 1},
        {"name": topic, "num_partitions": 1, "replication_factor": 1},
        {"name": "not allowed!", "num_partitions": 1, "replication_factor": 1},
        {"name": fresh_name(), "num_partitions": 1, "replication_factor": 5},
    ]
    with broker.connect() as connection:
        answer = connection.ask(CREATE_TOPICS, 7, {"topics": wanted, "timeout_ms": 30_000})
    codes = {found.name: found.error_code for found in answer.topics}
    assert codes[good] == ErrorCode.none
    assert codes[topic] == ErrorCode.topic_already_exists
    assert codes["not allowed!"] == ErrorCode.invalid_topic_exception
    assert ErrorCode.invalid_replication_factor in codes.values()
    (created,) = [found for found in answer.topics if found.name == good]
    assert (created.num_partitions, created.replication_factor) == (2, 1)
    assert {config.name for config in created.configs} >= {"retention.ms", "segment.bytes"}


def test_topic_named_twice_in_a_request_is_refused(broker: Broker) -> None:
    name = fresh_name()
    with broker.connect() as connection:
        wanted = [{"name": name, "num_partitions": 1, "replication_factor": 1}] * 2
        answer = connection.ask(CREATE_TOPICS, 7, {"topics": wanted, "timeout_ms": 30_000})
    assert {found.error_code for found in answer.topics} == {ErrorCode.invalid_request}


@pytest.mark.parametrize("version", range(4))
def test_each_topic_to_extend_is_answered_by_itself(broker: Broker, topic: str, version: int) -> None:
    wanted = [{"name": topic, "count": 3, "assignments": None}, {"name": fresh_name(), "count": 3, "assignments": None}]
    with broker.connect() as connection:
        answer = connection.ask(CREATE_PARTITIONS, version, {"topics": wanted, "timeout_ms": 30_000})
    codes = {found.name: found.error_code for found in answer.results}
    assert codes.pop(topic) == ErrorCode.none
    assert list(codes.values()) == [ErrorCode.unknown_topic_or_partition]


@pytest.mark.parametrize("version", range(1, 5))
def test_configs_asked_for_by_name_are_the_only_ones_answered(broker: Broker, version: int) -> None:
    topic = create_topic(broker, configs={"retention.ms": 1234})
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": ["retention.ms", "no.such.option"]}
    with broker.connect() as connection:
        answer = connection.ask(
            DESCRIBE_CONFIGS, version, {"resources": [resource], "include_synonyms": True, "include_documentation": True}
        )
    (result,) = answer.results
    assert result.error_code == ErrorCode.none
    (config,) = result.configs
    assert (config.name, config.value, config.config_source) == ("retention.ms", "1234", 1)
    assert next((one.name, one.value, one.source) for one in config.synonyms) == ("retention.ms", "1234", 1)
    if version >= 3:
        assert config.config_type == 5
        assert config.documentation


def test_configs_of_what_does_not_exist_are_refused(broker: Broker) -> None:
    resources = [{"resource_type": 2, "resource_name": fresh_name()}, {"resource_type": 4, "resource_name": "not a number"}]
    with broker.connect() as connection:
        answer = connection.ask(DESCRIBE_CONFIGS, 4, {"resources": resources})
    assert [result.error_code for result in answer.results] == [ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_request]


@pytest.mark.parametrize("version", [1, 12])
def test_topic_that_is_named_many_times_is_described_once(broker: Broker, version: int) -> None:
    topic = create_topic(broker)
    asked = [{"name": topic, "topic_id": None}, {"name": "unknown", "topic_id": None}] * 100
    with broker.connect() as connection:
        answer = connection.ask(METADATA, version, {"topics": asked, "allow_auto_topic_creation": False})
    assert sorted(found.name for found in answer.topics) == sorted([topic, "unknown"])


@pytest.mark.skipif(IS_KAFKA, reason="Kafka answers as often as it is asked, and can be kept busy that way")
def test_what_is_asked_for_many_times_in_a_request_is_answered_once(broker: Broker) -> None:
    """Ten kilobytes that named one broker two thousand times kept all clients waiting for ten seconds."""
    topic = create_topic(broker)
    await_coordinator(broker, "group")
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
    with broker.connect() as connection:
        assert len(connection.ask(DESCRIBE_CONFIGS, 4, {"resources": [resource] * 100}).results) == 1
        assert len(connection.ask(DESCRIBE_GROUPS, 5, {"groups": ["group"] * 100}).groups) == 1
        assert len(connection.ask(CONSUMER_GROUP_DESCRIBE, 0, {"group_ids": ["group"] * 100}).groups) == 1
        assert len(connection.ask(OFFSET_FETCH, 8, {"groups": [{"group_id": "group", "topics": None}] * 100}).groups) == 1


TOPIC_OPERATIONS, CLUSTER_OPERATIONS, NOT_ASKED = 3576, 8096, -(2**31)
"""What Kafka answers where there are no ACLs: one bit for each operation that there is."""


@pytest.mark.parametrize("is_asked", [True, False])
def test_allowed_operations_are_answered_to_those_who_ask(broker: Broker, is_asked: bool) -> None:
    asked = {"include_topic_authorized_operations": is_asked, "include_cluster_authorized_operations": is_asked}
    topics = [{"name": create_topic(broker), "topic_id": None}, {"name": "unknown", "topic_id": None}]
    with broker.connect() as connection:
        old = connection.ask(METADATA, 10, {"topics": topics, "allow_auto_topic_creation": False, **asked})
        new = connection.ask(METADATA, 13, {"topics": topics, "allow_auto_topic_creation": False, **asked})
        cluster = connection.ask(DESCRIBE_CLUSTER, 1, {"endpoint_type": 1, **asked})
    for answer in (old, new):
        assert {one.topic_authorized_operations for one in answer.topics} == {TOPIC_OPERATIONS if is_asked else NOT_ASKED}
    told = CLUSTER_OPERATIONS if is_asked else NOT_ASKED
    assert (old.cluster_authorized_operations, cluster.cluster_authorized_operations) == (told, told)


def test_operations_on_topics_are_answered_page_by_page(broker: Broker) -> None:
    fields = {"topics": [{"name": create_topic(broker)}], "response_partition_limit": 10, "cursor": None}
    with broker.connect() as connection:
        (found,) = connection.ask(DESCRIBE_TOPIC_PARTITIONS, 0, fields).topics
    assert found.topic_authorized_operations == TOPIC_OPERATIONS
