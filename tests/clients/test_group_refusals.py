"""Requests about groups that are missing or have no name, and members that do not say their protocol: what is refused, and how."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import Broker
from tests.clients.group_requests import (
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_GROUPS,
    OFFSET_DELETE,
    SYNC_GROUP,
    Identity,
    commit_alone,
    sync_fields,
)
from tests.topics import create_topic, fresh_name

NO_OPERATIONS = -2147483648


def ask(broker: Broker, api_key: int, version: int, **fields: object) -> Any:
    with broker.connect() as connection:
        return connection.ask(api_key, version, fields)


@pytest.mark.parametrize(("group", "code"), [("", ErrorCode.invalid_group_id), ("nobody", ErrorCode.group_id_not_found)])
@pytest.mark.parametrize("is_there", [True, False], ids=["topic", "missing topic"])
def test_positions_of_no_group_cannot_be_deleted(group_broker: Broker, group: str, code: ErrorCode, is_there: bool) -> None:
    topic = create_topic(group_broker) if is_there else fresh_name()
    answer = ask(group_broker, OFFSET_DELETE, 0, group_id=group, topics=[{"name": topic, "partitions": [{"partition_index": 0}]}])
    assert (answer.error_code, answer.topics) == (code, ())


def test_position_in_a_missing_topic_is_an_error_of_the_partition_where_there_is_a_group(group_broker: Broker) -> None:
    topic, group = create_topic(group_broker), fresh_name("group")
    with group_broker.connect() as connection:
        commit_alone(connection, group, topic, 5)
    asked = [{"name": "no-such-topic", "partitions": [{"partition_index": 0}]}]
    answer = ask(group_broker, OFFSET_DELETE, 0, group_id=group, topics=asked)
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (ErrorCode.none, ErrorCode.unknown_topic_or_partition)


def test_group_without_a_name_is_not_described(group_broker: Broker) -> None:
    described = ask(group_broker, CONSUMER_GROUP_DESCRIBE, 1, group_ids=["", "nobody"]).groups
    assert [one.error_code for one in described] == [ErrorCode.invalid_group_id, ErrorCode.group_id_not_found]


def test_no_operation_is_allowed_on_a_group_that_does_not_exist(group_broker: Broker) -> None:
    described = [
        ask(group_broker, CONSUMER_GROUP_DESCRIBE, 1, group_ids=["nobody"], include_authorized_operations=True).groups[0],
        ask(group_broker, DESCRIBE_GROUPS, 6, groups=["nobody"], include_authorized_operations=True).groups[0],
    ]
    assert [one.authorized_operations for one in described] == [NO_OPERATIONS] * 2
    dead = ask(group_broker, DESCRIBE_GROUPS, 5, groups=["nobody"], include_authorized_operations=True).groups[0]
    assert (dead.group_state, dead.authorized_operations) == ("Dead", 3400)


def test_group_that_is_named_twice_is_described_twice(group_broker: Broker) -> None:
    described = ask(group_broker, DESCRIBE_GROUPS, 5, groups=["a", "b", "a"]).groups
    assert sorted(one.group_id for one in described) == ["a", "a", "b"]
    described = ask(group_broker, CONSUMER_GROUP_DESCRIBE, 0, group_ids=["a", "b", "a"]).groups
    assert sorted(one.group_id for one in described) == ["a", "a", "b"]


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_sync_without_a_protocol_is_refused_before_the_member_is_looked_up(group_broker: Broker, missing: str) -> None:
    for group in ("", fresh_name("group")):
        answer = ask(group_broker, SYNC_GROUP, 5, **(sync_fields(Identity(group, "nobody", 1), {}) | {missing: None}))
        assert answer.error_code == ErrorCode.inconsistent_group_protocol
