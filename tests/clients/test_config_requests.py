"""Changes of options that are refused, by raw requests: with which error, and what is looked at first where several things are wrong."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import Broker
from tests.connection import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from tests.topics import create_topic, fresh_name
from tests.waiting import wait_until

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
INVALID_CONFIG, INVALID_REQUEST = ErrorCode.invalid_config, ErrorCode.invalid_request
GOOD = ("retention.ms", SET, "100000")

Change = tuple[str, int, str | None]

REFUSED: dict[str, tuple[list[Change], ErrorCode]] = {
    "no value": ([("retention.ms", SET, None)], INVALID_REQUEST),
    "no value for an option that does not exist": ([("no.such.option", SET, None)], INVALID_REQUEST),
    "twice": ([GOOD, GOOD], INVALID_REQUEST),
    "twice, and a bad value": ([("retention.ms", SET, "x"), ("retention.ms", SET, "x")], INVALID_REQUEST),
    "an option that does not exist": ([("no.such.option", SET, "1")], INVALID_CONFIG),
    "a bad value": ([("retention.ms", SET, "x")], INVALID_CONFIG),
    "nothing added to a list": ([("cleanup.policy", APPEND, "")], INVALID_CONFIG),
    "added to what is no list": ([("retention.ms", APPEND, "1")], INVALID_CONFIG),
}


def entry(name: str, changes: list[Change]) -> dict[str, object]:
    configs = [{"name": option, "config_operation": operation, "value": value} for option, operation, value in changes]
    return {"resource_type": TOPIC, "resource_name": name, "configs": configs}


def codes(broker: Broker, api_key: int, *entries: dict[str, object]) -> list[ErrorCode]:
    with broker.connect() as connection:
        answer = connection.ask(api_key, 1, {"resources": entries, "validate_only": False})
    return [one.error_code for one in answer.responses]


@pytest.mark.parametrize("is_there", [True, False], ids=["topic", "missing topic"])
@pytest.mark.parametrize("case", REFUSED)
def test_mistake_in_a_change_is_answered_before_an_unknown_topic(broker: Broker, topic: str, case: str, is_there: bool) -> None:
    changes, code = REFUSED[case]
    refused = entry(topic if is_there else fresh_name(), changes)
    assert codes(broker, INCREMENTAL_ALTER_CONFIGS, refused) == [code]
    if all(operation == SET for _, operation, _ in changes):
        assert codes(broker, ALTER_CONFIGS, refused) == [code]


@pytest.mark.parametrize(
    ("value", "is_good"),
    [
        ("0:1,1:1", True),
        ("*", True),
        ("", True),
        ("0:1,", True),
        ("0:1,,1:1", True),
        (",", True),
        ("1:", False),
        ("a:b", False),
        ("0:1:2", False),
        ("0:-1", False),
        ("*,0:1", False),
        ("all", False),
    ],
)
def test_throttled_replicas_are_pairs_of_numbers_or_all(broker: Broker, topic: str, value: str, is_good: bool) -> None:
    for side in ("leader", "follower"):
        changes: list[Change] = [(f"{side}.replication.throttled.replicas", SET, value)]
        assert codes(broker, INCREMENTAL_ALTER_CONFIGS, entry(topic, changes)) == [ErrorCode.none if is_good else INVALID_CONFIG]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("leader.replication.throttled.rate", "x"),
        ("follower.replication.throttled.rate", "-1"),
        ("leader.replication.throttled.rate", "1MB"),
        ("log.cleaner.threads", ""),
        ("broker.id", "9"),
    ],
)
@pytest.mark.parametrize("name", ["1", ""])
def test_bad_value_for_a_broker_is_an_invalid_request(broker: Broker, name: str, option: str, value: str) -> None:
    refused = entry(name, [(option, SET, value)]) | {"resource_type": BROKER}
    for api_key in (INCREMENTAL_ALTER_CONFIGS, ALTER_CONFIGS):
        assert codes(broker, api_key, refused) == [INVALID_REQUEST]


@pytest.mark.parametrize(("name", "code"), [("", INVALID_REQUEST), ("a b", ErrorCode.invalid_topic_exception)])
@pytest.mark.parametrize("changes", [[GOOD], [("retention.ms", SET, "x")], [("no.such.option", SET, "1")]])
def test_name_that_no_topic_can_have_is_answered_before_a_bad_value(
    broker: Broker, name: str, code: ErrorCode, changes: list[Change]
) -> None:
    for api_key in (INCREMENTAL_ALTER_CONFIGS, ALTER_CONFIGS):
        assert codes(broker, api_key, entry(name, changes)) == [code]


def test_topic_that_is_named_twice_is_not_changed_at_all(broker: Broker, topic: str) -> None:
    other = create_topic(broker)
    again = entry(topic, [("retention.ms", SET, "200000")])
    assert sorted(codes(broker, INCREMENTAL_ALTER_CONFIGS, entry(topic, [GOOD]), entry(other, [GOOD]), again)) == [0, 42, 42]
    wait_until(lambda: described(broker, other, "retention.ms").value == "100000", "the other topic is changed")
    assert described(broker, topic, "retention.ms").value != "200000"


@pytest.mark.parametrize("name", ["", "a b", "x" * 250])
def test_options_of_a_topic_that_cannot_be_are_not_described(broker: Broker, name: str) -> None:
    assert description(broker, name).error_code == ErrorCode.invalid_topic_exception


def test_value_is_shown_as_it_is_understood(broker: Broker, topic: str) -> None:
    spaced = entry(topic, [("retention.ms", SET, " 100000 "), ("cleanup.policy", SET, " compact , delete")])
    assert codes(broker, INCREMENTAL_ALTER_CONFIGS, spaced) == [ErrorCode.none]
    wait_until(lambda: described(broker, topic, "retention.ms").value == "100000", "the change is seen")
    assert described(broker, topic, "retention.ms").synonyms[0].value == "100000"
    assert described(broker, topic, "cleanup.policy").synonyms[0].value == "compact,delete"


def test_default_in_another_unit_is_no_synonym(broker: Broker, topic: str) -> None:
    assert described(broker, topic, "segment.ms").synonyms == ()
    assert [one.name for one in described(broker, topic, "segment.bytes").synonyms] == ["log.segment.bytes"]


def description(broker: Broker, name: str, *options: str) -> Any:
    asked = {"resource_type": TOPIC, "resource_name": name, "configuration_keys": options}
    with broker.connect() as connection:
        return connection.ask(DESCRIBE_CONFIGS, 4, {"resources": [asked], "include_synonyms": True}).results[0]


def described(broker: Broker, name: str, option: str) -> Any:
    return description(broker, name, option).configs[0]
