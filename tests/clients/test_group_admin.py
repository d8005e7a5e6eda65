"""Groups as administrators see them: listed with filters, described, deleted, their offsets read, set and deleted by real admin clients."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from tests.brokers import Broker
from tests.clients.consumer_protocol import HandMadeMember
from tests.clients.group_kinds import CONSUMER_PROTOCOL, RANGE
from tests.clients.group_member import Group
from tests.clients.group_requests import LIST_GROUPS, commit_alone, enter, leave
from tests.connection import Connection
from tests.topics import create_topic, fresh_name
from tests.waiting import DEADLINE_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient


@pytest.fixture
def admin(group_broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": group_broker.bootstrap_servers})


@pytest.fixture
def python_admin(group_broker: Broker) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=group_broker.bootstrap_servers)
    yield client
    client.close()


def listed(connection: Connection, **filters: list[str]) -> set[str]:
    answer = connection.ask(LIST_GROUPS, 5, filters)
    assert answer.error_code == ErrorCode.none
    return {found.group_id for found in answer.groups}


def test_filters_choose_by_state_and_type(group_broker: Broker) -> None:
    topic = create_topic(group_broker)
    stable, empty, new = fresh_name("group"), fresh_name("group"), fresh_name("group")
    with group_broker.connect() as connection:
        who = enter(connection, stable)
        commit_alone(connection, empty, topic, 1)
        member = HandMadeMember(group_broker, new, [topic])
        member.join()
        ours = {stable, empty, new}
        assert listed(connection) >= ours
        assert listed(connection, states_filter=["Stable"]) & ours == {stable, new}
        assert listed(connection, states_filter=["empty"]) & ours == {empty}
        assert listed(connection, states_filter=["Stable", "Empty"]) & ours == ours
        assert listed(connection, types_filter=["consumer"]) & ours == {new}
        assert listed(connection, types_filter=["Classic"]) & ours == {stable, empty}
        assert listed(connection, types_filter=["classic"], states_filter=["Stable"]) & ours == {stable}
        assert listed(connection, states_filter=["NoSuchState"]) & ours == set()
        leave(connection, who)
        member.leave()
        member.close()


@pytest.mark.parametrize("kind", [RANGE, CONSUMER_PROTOCOL], ids=str)
def test_admin_client_describes_members_and_what_they_own(group_broker: Broker, admin: AdminClient, kind: Any) -> None:
    topic = create_topic(group_broker, partitions=3)
    places = {(topic, number) for number in range(3)}
    with Group(group_broker, kind, topic) as group:
        group.join()
        group.join()
        group.wait_until_divided(places)
        described = admin.describe_consumer_groups([group.name], request_timeout=DEADLINE_S)[group.name].result()
        assert described.state == ConsumerGroupState.STABLE
        assert described.type == (ConsumerGroupType.CONSUMER if kind.is_new_protocol else ConsumerGroupType.CLASSIC)
        owned = [(place.topic, place.partition) for member in described.members for place in member.assignment.topic_partitions]
        assert sorted(owned) == sorted(places)
        assert {member.client_id for member in described.members} == {"rdkafka"}
        (found,) = [one for one in _list(admin) if one.group_id == group.name]
        assert (found.state, found.type) == (described.state, described.type)
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([group.name], request_timeout=DEADLINE_S)[group.name].result()
    assert admin.delete_consumer_groups([group.name], request_timeout=DEADLINE_S)[group.name].result() is None
    assert group.name not in {one.group_id for one in _list(admin)}


def _list(admin: AdminClient) -> list[Any]:
    result = admin.list_consumer_groups(request_timeout=DEADLINE_S).result()
    assert result.errors == []
    found: list[Any] = result.valid
    return found


def test_admin_client_lists_and_alters_offsets(group_broker: Broker, admin: AdminClient) -> None:
    group, topic = fresh_name("group"), create_topic(group_broker, partitions=2)
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 6)])
    altered = admin.alter_consumer_group_offsets([wanted])[group].result(DEADLINE_S)
    assert [place.error for place in altered.topic_partitions] == [None, None]
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(DEADLINE_S)
    assert {place.partition: place.offset for place in found.topic_partitions} == {0: 5, 1: 6}


def test_kafka_python_admin_lists_describes_and_deletes(group_broker: Broker, python_admin: Any) -> None:
    group, topic = fresh_name("group"), create_topic(group_broker)
    with group_broker.connect() as connection:
        commit_alone(connection, group, topic, 11)
    assert group in str(python_admin.list_groups())
    offsets = python_admin.list_group_offsets(group)
    assert "11" in str(offsets)
    assert "Empty" in str(python_admin.describe_groups([group]))
    python_admin.delete_groups([group])
    assert group not in str(python_admin.list_groups())
