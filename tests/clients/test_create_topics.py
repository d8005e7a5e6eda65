"""CreateTopics over raw requests: what an answer carries, and which of two mistakes it tells of."""

from collections.abc import Mapping
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import Broker
from tests.connection import CREATE_TOPICS
from tests.topics import create_topic, fresh_name


def ask(broker: Broker, fields: Mapping[str, object], *, validate_only: bool = False) -> Any:
    """One topic of one partition with one replica, unless `fields` say otherwise; returns its part of the answer."""
    entry = {"name": fresh_name(), "num_partitions": 1, "replication_factor": 1, **fields}
    with broker.connect() as connection:
        answer = connection.ask(CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 30_000, "validate_only": validate_only})
    return answer.topics[0]


ON_ONE = {"partition_index": 0, "broker_ids": [1]}
UNKNOWN_OPTION = [{"name": "no.such.option", "value": "1"}]


def test_topic_that_is_refused_has_no_configs_rather_than_unknown_ones(broker: Broker) -> None:
    refused = ask(broker, {"name": "a/b"})
    assert refused.error_code == ErrorCode.invalid_topic_exception
    assert refused.configs == ()


def test_topic_that_is_only_validated_is_answered_like_one_that_is_made(broker: Broker) -> None:
    validated = ask(broker, {}, validate_only=True)
    assert validated.error_code == ErrorCode.none
    assert validated.topic_id is not None
    assert validated.num_partitions == 1


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"configs": UNKNOWN_OPTION, "replication_factor": 0}, ErrorCode.invalid_config),
        ({"configs": UNKNOWN_OPTION, "assignments": [ON_ONE]}, ErrorCode.invalid_config),
        (
            {"configs": UNKNOWN_OPTION, "num_partitions": -1, "replication_factor": -1, "assignments": [ON_ONE, ON_ONE]},
            ErrorCode.invalid_config,
        ),
        ({"num_partitions": 0, "replication_factor": 0}, ErrorCode.invalid_replication_factor),
        ({"name": "", "configs": UNKNOWN_OPTION}, ErrorCode.invalid_topic_exception),
    ],
)
def test_of_two_mistakes_the_one_that_kafka_looks_at_first_is_answered(broker: Broker, fields: dict[str, object], error: ErrorCode) -> None:
    assert ask(broker, fields).error_code == error


def test_number_of_partitions_is_looked_at_before_the_number_of_replicas(broker: Broker) -> None:
    asked = {"name": fresh_name(), "num_partitions": 0, "replication_factor": 2, "assignments": [], "configs": []}
    with broker.connect() as connection:
        answer = connection.ask(CREATE_TOPICS, 5, {"topics": [asked], "timeout_ms": 10_000, "validate_only": True})
    assert answer.topics[0].error_code == ErrorCode.invalid_partitions


def test_of_an_option_that_is_given_twice_the_last_value_counts(broker: Broker) -> None:
    configs = [{"name": "retention.ms", "value": value} for value in ("nonsense", "5000")]
    asked = {"name": fresh_name(), "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": configs}
    with broker.connect() as connection:
        (answer,) = connection.ask(CREATE_TOPICS, 5, {"topics": [asked], "timeout_ms": 10_000, "validate_only": True}).topics
    assert answer.error_code == ErrorCode.none
    assert [one.value for one in answer.configs if one.name == "retention.ms"] == ["5000"]


def test_partition_that_is_assigned_twice_is_refused(broker: Broker) -> None:
    refused = ask(broker, {"num_partitions": -1, "replication_factor": -1, "assignments": [ON_ONE, ON_ONE]})
    assert refused.error_code == ErrorCode.invalid_replica_assignment


@pytest.mark.parametrize("configs", [UNKNOWN_OPTION, [{"name": "retention.ms", "value": None}]])
def test_name_that_is_taken_is_answered_before_anything_else(broker: Broker, configs: list[dict[str, str | None]]) -> None:
    taken = create_topic(broker)
    fields = {"name": taken, "configs": configs, "assignments": [ON_ONE]}
    assert ask(broker, fields).error_code == ErrorCode.topic_already_exists
