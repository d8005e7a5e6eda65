"""What does not exist yet is answered so that tools go on and people understand: access rules, moving partitions, quotas, users, quorum.

Raw requests in the lowest and the highest version; `test_admin_tools` and the admin tests of each client ask the same with real tools.
"""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import IS_KAFKA, Broker
from tests.connection import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, INIT_PRODUCER_ID, METADATA
from tests.topics import create_topic, fresh_name
from tests.waiting import wait_until

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS, ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 29, 30, 31, 43, 45, 46
DESCRIBE_QUOTAS, DESCRIBE_SCRAM, DESCRIBE_QUORUM, LIST_TRANSACTIONS, LIST_CONFIG_RESOURCES, ALTER_CONFIGS = 48, 50, 55, 66, 74, 33
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

ANY_ACL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
ACL = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


def ask(broker: Broker, api_key: int, version: int, **fields: object) -> Any:
    with broker.connect() as connection:
        return connection.ask(api_key, version, fields)


@pytest.mark.parametrize("version", [1, 3])
def test_access_rules_are_answered_with_security_disabled_one_by_one(broker: Broker, version: int) -> None:
    described = ask(broker, DESCRIBE_ACLS, version, **ANY_ACL)
    assert (described.error_code, described.resources) == (ErrorCode.security_disabled, ())
    assert "uthorizer" in described.error_message
    created = ask(broker, CREATE_ACLS, version, creations=[ACL, ACL])
    assert [result.error_code for result in created.results] == [ErrorCode.security_disabled] * 2
    deleted = ask(broker, DELETE_ACLS, version, filters=[ANY_ACL] * 3)
    assert [(result.error_code, result.matching_acls) for result in deleted.filter_results] == [(ErrorCode.security_disabled, ())] * 3


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("election_type", [0, 1])
def test_election_is_not_needed_where_the_only_replica_leads(broker: Broker, topic: str, version: int, election_type: int) -> None:
    asked = [{"topic": topic, "partitions": [0, 7]}, {"topic": "no-such-topic", "partitions": [0]}]
    answer = ask(broker, ELECT_LEADERS, version, election_type=election_type, topic_partitions=asked, timeout_ms=1000)
    codes = {
        (one.topic, result.partition_id): result.error_code for one in answer.replica_election_results for result in one.partition_result
    }
    assert codes == {
        (topic, 0): ErrorCode.election_not_needed,
        (topic, 7): ErrorCode.unknown_topic_or_partition,
        ("no-such-topic", 0): ErrorCode.unknown_topic_or_partition,
    }


def test_election_of_everything_has_nothing_to_do(broker: Broker, topic: str) -> None:
    answer = ask(broker, ELECT_LEADERS, 2, election_type=0, topic_partitions=None, timeout_ms=1000)
    assert answer.error_code == ErrorCode.none
    assert {one.topic: one.partition_result for one in answer.replica_election_results}[topic] == ()


def test_election_of_an_unknown_kind_is_refused(broker: Broker) -> None:
    answer = ask(broker, ELECT_LEADERS, 2, election_type=5, topic_partitions=None, timeout_ms=1000)
    assert (answer.error_code, answer.replica_election_results) == (ErrorCode.invalid_request, ())


@pytest.mark.parametrize("version", [0, 1])
def test_partition_can_be_moved_to_where_it_is_and_nowhere_else(broker: Broker, version: int) -> None:
    topic = create_topic(broker, partitions=6)
    wanted: dict[int, list[int] | None] = {0: [1], 1: [2], 2: [], 3: [1, 1], 4: None, 9: [1]}
    partitions = [{"partition_index": index, "replicas": replicas} for index, replicas in wanted.items()]
    topics = [{"name": topic, "partitions": partitions}, {"name": "no-such-topic", "partitions": partitions[:1]}]
    answer = ask(broker, ALTER_REASSIGNMENTS, version, timeout_ms=1000, topics=topics)
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    moved, unknown = answer.responses
    assert {one.partition_index: one.error_code for one in moved.partitions} == {
        0: ErrorCode.none,
        1: ErrorCode.invalid_replica_assignment,
        2: ErrorCode.invalid_replica_assignment,
        3: ErrorCode.invalid_replica_assignment,
        4: ErrorCode.no_reassignment_in_progress,
        9: ErrorCode.unknown_topic_or_partition,
    }
    assert [one.error_code for one in unknown.partitions] == [ErrorCode.unknown_topic_or_partition]
    assert all(one.error_message for one in moved.partitions if one.partition_index in (1, 2, 3, 9))


@pytest.mark.parametrize("asked", [None, [{"name": "t", "partition_indexes": [0, 9]}]])
def test_no_partition_is_being_moved(broker: Broker, asked: object) -> None:
    answer = ask(broker, LIST_REASSIGNMENTS, 0, topics=asked, timeout_ms=1000)
    assert (answer.error_code, answer.error_message, answer.topics) == (ErrorCode.none, None, ())


@pytest.mark.parametrize("version", [0, 1])
def test_there_are_no_quotas(broker: Broker, version: int) -> None:
    answer = ask(broker, DESCRIBE_QUOTAS, version, components=[{"entity_type": "user", "match_type": 2, "match": None}], strict=False)
    assert (answer.error_code, answer.error_message, answer.entries) == (ErrorCode.none, "", ())


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("bogus", 2, None)], ErrorCode.unsupported_version),
        ([("", 2, None)], ErrorCode.invalid_request),
        ([("user", 7, None)], ErrorCode.invalid_request),
        ([("user", 2, None), ("user", 2, None)], ErrorCode.invalid_request),
        ([("user", 0, None)], ErrorCode.invalid_request),
        ([("ip", 2, None), ("user", 2, None)], ErrorCode.invalid_request),
    ],
)
def test_questions_about_quotas_that_make_no_sense_are_refused(
    broker: Broker, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    named = [dict(zip(("entity_type", "match_type", "match"), component, strict=True)) for component in components]
    answer = ask(broker, DESCRIBE_QUOTAS, 1, components=named, strict=False)
    assert (answer.error_code, answer.entries) == (code, None)
    assert answer.error_message


def test_there_are_no_users_with_passwords(broker: Broker) -> None:
    everybody = ask(broker, DESCRIBE_SCRAM, 0, users=None)
    assert (everybody.error_code, everybody.error_message, everybody.results) == (ErrorCode.none, "", ())
    named = ask(broker, DESCRIBE_SCRAM, 0, users=[{"name": "alice"}, {"name": "bob"}, {"name": "alice"}])
    assert named.error_code == ErrorCode.none
    assert {one.user: one.error_code for one in named.results} == {
        "alice": ErrorCode.duplicate_resource,
        "bob": ErrorCode.resource_not_found,
    }


@pytest.mark.parametrize("version", [0, 2])
def test_quorum_is_led_by_the_controller(broker: Broker, version: int) -> None:
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    answer = ask(broker, DESCRIBE_QUORUM, version, topics=topics)
    ((partition,),) = [one.partitions for one in answer.topics]
    assert (answer.error_code, partition.error_code, partition.leader_id) == (ErrorCode.none, ErrorCode.none, 1)
    assert partition.leader_epoch >= 1
    assert [voter.replica_id for voter in partition.current_voters] == [1]
    if version == 2:
        assert [node.node_id for node in answer.nodes] == [1]


def test_only_the_metadata_has_a_quorum(broker: Broker) -> None:
    answer = ask(broker, DESCRIBE_QUORUM, 2, topics=[{"topic_name": "t", "partitions": [{"partition_index": 0}]}])
    assert answer.topics[0].partitions[0].error_code == ErrorCode.unknown_topic_or_partition
    assert ask(broker, DESCRIBE_QUORUM, 2, topics=[]).topics == ()


def test_filters_of_transactions_that_make_no_sense_are_named_or_refused(broker: Broker) -> None:
    answer = ask(broker, LIST_TRANSACTIONS, 2, state_filters=["Bogus"], duration_filter=-1)
    assert (answer.error_code, answer.unknown_state_filters, answer.transaction_states) == (ErrorCode.none, ("Bogus",), ())
    for pattern, code in (("a.*", ErrorCode.none), ("a(b", ErrorCode.invalid_regular_expression)):
        assert ask(broker, LIST_TRANSACTIONS, 2, duration_filter=-1, transactional_id_pattern=pattern).error_code == code


def test_resources_with_options_are_listed(broker: Broker, topic: str) -> None:
    assert ask(broker, LIST_CONFIG_RESOURCES, 0).config_resources == ()
    everything = {(one.resource_type, one.resource_name) for one in ask(broker, LIST_CONFIG_RESOURCES, 1).config_resources}
    assert everything >= {(TOPIC, topic), (BROKER, "1"), (BROKER_LOGGER, "1")}
    brokers = ask(broker, LIST_CONFIG_RESOURCES, 1, resource_types=[BROKER, CLIENT_METRICS])
    assert [(one.resource_type, one.resource_name) for one in brokers.config_resources] == [(BROKER, "1")]
    assert ask(broker, LIST_CONFIG_RESOURCES, 1, resource_types=[77]).error_code == ErrorCode.unsupported_version


@pytest.mark.parametrize("version", [1, 4])
def test_group_is_described_with_the_options_that_hold_for_it(broker: Broker, version: int) -> None:
    resources = [{"resource_type": GROUP, "resource_name": fresh_name()}]
    (result,) = ask(broker, DESCRIBE_CONFIGS, version, resources=resources, include_synonyms=True).results
    assert result.error_code == ErrorCode.none
    options = {one.name: (one.value, one.config_source, one.read_only) for one in result.configs}
    assert options["consumer.session.timeout.ms"] == ("45000", 5, False)
    assert options["consumer.heartbeat.interval.ms"] == ("5000", 5, False)


def test_group_without_a_name_has_no_options(broker: Broker) -> None:
    (result,) = ask(broker, DESCRIBE_CONFIGS, 4, resources=[{"resource_type": GROUP, "resource_name": ""}]).results
    assert result.error_code == ErrorCode.invalid_request


def increment(broker: Broker, kind: int, name: str, option: str, value: str | None, operation: int = 0) -> Any:
    configs = [{"name": option, "config_operation": operation, "value": value}]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    (response,) = ask(broker, INCREMENTAL_ALTER_CONFIGS, 1, resources=resources).responses
    return response


@pytest.mark.parametrize(("option", "value"), [("bogus", "1"), ("consumer.session.timeout.ms", "5"), ("consumer.session.timeout.ms", "x")])
def test_options_of_a_group_that_make_no_sense_are_refused(broker: Broker, option: str, value: str) -> None:
    response = increment(broker, GROUP, "group", option, value)
    assert response.error_code == ErrorCode.invalid_config
    assert option in response.error_message


@pytest.mark.skipif(IS_KAFKA, reason="Kafka obeys it")
def test_option_of_one_group_that_cannot_be_obeyed_is_refused_with_what_can(broker: Broker) -> None:
    response = increment(broker, GROUP, "group", "consumer.session.timeout.ms", "50000")
    assert response.error_code == ErrorCode.invalid_config
    assert "group.consumer.session.timeout.ms" in response.error_message
    assert increment(broker, GROUP, "group", "consumer.session.timeout.ms", "45000").error_code == ErrorCode.none


def loggers(broker: Broker, version: int = 4) -> dict[str, str]:
    (result,) = ask(broker, DESCRIBE_CONFIGS, version, resources=[{"resource_type": BROKER_LOGGER, "resource_name": "1"}]).results
    assert result.error_code == ErrorCode.none
    assert {one.config_source for one in result.configs} == {6}
    return {one.name: one.value for one in result.configs}


@pytest.mark.skipif(IS_KAFKA, reason="Kafka has loggers of other names")
def test_levels_of_loggers_are_shown_and_changed_while_the_broker_runs(broker: Broker) -> None:
    name = "millstream.broker.network.connection"
    assert loggers(broker, 1)["root"] == loggers(broker)[name] == "INFO"
    assert increment(broker, BROKER_LOGGER, "1", name, "ERROR").error_code == ErrorCode.none
    assert loggers(broker)[name] == "ERROR"
    make_it_warn(broker)
    assert increment(broker, BROKER_LOGGER, "1", name, None, operation=1).error_code == ErrorCode.none
    assert loggers(broker)[name] == "INFO"
    before = warnings(broker)
    make_it_warn(broker)
    wait_until(lambda: warnings(broker) > before, "the logger to tell warnings again")
    # What was not told while the level was ERROR never comes: the log is written in the order of the events.
    assert warnings(broker) == before + 1


def make_it_warn(broker: Broker) -> None:
    with broker.connect() as connection:
        connection.socket.sendall(b"\x00\x00\x00\x08" + b"\x7f" * 8)
        assert connection.is_ended_by_peer()


def warnings(broker: Broker) -> int:
    return broker.output.count("WARNING millstream.broker.network.connection")


def test_levels_of_loggers_that_cannot_be_set_are_refused(broker: Broker) -> None:
    refused = {
        ErrorCode.invalid_config: [
            increment(broker, BROKER_LOGGER, "1", "no.such.logger", "DEBUG"),
            increment(broker, BROKER_LOGGER, "1", "root", "LOUD"),
        ],
        ErrorCode.invalid_request: [
            increment(broker, BROKER_LOGGER, "1", "root", "DEBUG", operation=2),
            increment(broker, BROKER_LOGGER, "1", "root", None, operation=1),
            increment(broker, BROKER_LOGGER, "2", "root", "DEBUG"),
        ],
    }
    for code, responses in refused.items():
        assert [response.error_code for response in responses] == [code] * len(responses)
    configs = [{"name": "root", "value": "INFO"}]
    replaced = ask(broker, ALTER_CONFIGS, 2, resources=[{"resource_type": BROKER_LOGGER, "resource_name": "1", "configs": configs}])
    assert replaced.responses[0].error_code == ErrorCode.invalid_request


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(5, -1), (-1, 5)])
def test_half_of_an_old_producer_is_an_invalid_request(broker: Broker, version: int, producer_id: int, producer_epoch: int) -> None:
    old = {"producer_id": producer_id, "producer_epoch": producer_epoch}
    answer = ask(broker, INIT_PRODUCER_ID, version, transactional_id=None, transaction_timeout_ms=1000, **old)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.invalid_request, -1, -1)


def test_topic_of_offsets_is_created_for_who_asks_for_it(broker: Broker) -> None:
    """Kafka answers UNKNOWN_TOPIC_OR_PARTITION once and creates the topic meanwhile."""
    topics = [{"name": "__consumer_offsets", "topic_id": None}]

    def found() -> Any:
        (topic,) = ask(broker, METADATA, 12, topics=topics, allow_auto_topic_creation=True).topics
        assert topic.is_internal
        assert topic.error_code in (ErrorCode.none, ErrorCode.unknown_topic_or_partition)
        return topic

    wait_until(lambda: found().error_code == ErrorCode.none, "the topic of offsets")
    resources = [{"resource_type": TOPIC, "resource_name": "__consumer_offsets", "configuration_keys": ["cleanup.policy"]}]
    (result,) = ask(broker, DESCRIBE_CONFIGS, 4, resources=resources).results
    assert result.configs[0].value == "compact"


def test_internal_topic_that_is_not_there_is_described_as_internal(broker: Broker) -> None:
    topics = [{"name": "__share_group_state", "topic_id": None}]
    (topic,) = ask(broker, METADATA, 12, topics=topics, allow_auto_topic_creation=False).topics
    assert (topic.error_code, topic.is_internal) == (ErrorCode.unknown_topic_or_partition, True)
