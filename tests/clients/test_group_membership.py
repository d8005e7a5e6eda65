"""Real consumers come and go: every partition always has one owner, whoever is there, and whichever client divides them how."""

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import Broker
from tests.clients.group_kinds import AIOKAFKA, CONSUMER_PROTOCOL, COOPERATIVE, EVERY_CLIENT, EVERY_KIND, KAFKA_PYTHON, RANGE, Kind
from tests.clients.group_member import Group
from tests.clients.group_requests import describe
from tests.clients.numbered import Numbered
from tests.connection import CREATE_PARTITIONS
from tests.topics import LATEST, create_topic, fresh_name, list_offset
from tests.waiting import wait_until

each_kind = pytest.mark.parametrize("kind", EVERY_KIND, ids=str)
each_client = pytest.mark.parametrize("kind", EVERY_CLIENT, ids=str)


def numbered(broker: Broker, partitions: int, name: str | None = None) -> Numbered:
    return Numbered(broker, create_topic(broker, name=name, partitions=partitions), partitions=partitions)


def add_partitions(broker: Broker, topic: str, count: int) -> None:
    with broker.connect() as connection:
        wanted = [{"name": topic, "count": count, "assignments": None}]
        answer = connection.ask(CREATE_PARTITIONS, 3, {"topics": wanted, "timeout_ms": 10_000})
        assert answer.results[0].error_code == ErrorCode.none
        for partition in range(count):
            wait_until(lambda at=partition: list_offset(connection, topic, LATEST, partition=at).error_code == 0, "a leader")  # type: ignore[misc]


@each_kind
def test_partitions_are_divided_among_those_who_are_there(group_broker: Broker, kind: Kind) -> None:
    messages = numbered(group_broker, 4)
    with Group(group_broker, kind, messages.topic) as group:
        first = group.join()
        group.wait_until_divided(messages.places)
        group.join()
        group.wait_until_divided(messages.places)
        assert sorted(len(member.owned) for member in group.members) == [2, 2]
        group.leave(first)
        group.wait_until_divided(messages.places)


@each_client
def test_more_consumers_than_partitions_leave_some_idle_until_they_are_needed(group_broker: Broker, kind: Kind) -> None:
    messages = numbered(group_broker, 2)
    with Group(group_broker, kind, messages.topic) as group:
        for _ in range(4):
            group.join()
        group.wait_until_divided(messages.places, busy=2)
        messages.write(10)
        group.wait_for_all(messages)
        for member in [member for member in group.members if member.owned]:
            group.leave(member)
        group.wait_until_divided(messages.places, busy=2)
        messages.write(10)
        group.wait_for_all(messages)
        messages.check(group.delivered)


@each_client
def test_partitions_added_under_way_are_consumed_from_their_beginning(group_broker: Broker, kind: Kind) -> None:
    messages = numbered(group_broker, 1)
    with Group(group_broker, kind, messages.topic) as group:
        group.join()
        group.join()
        messages.write(10)
        group.wait_until_divided(messages.places, busy=1)
        add_partitions(group_broker, messages.topic, 3)
        messages.grow(3)
        messages.write(10)
        group.wait_until_divided(messages.places, busy=2)
        group.wait_for_all(messages)
        messages.check(group.delivered)


@each_client
def test_pattern_finds_topics_that_exist_and_that_come(group_broker: Broker, kind: Kind) -> None:
    stem = fresh_name("pattern")
    first, foreign = numbered(group_broker, 2, f"{stem}-a"), numbered(group_broker, 1, f"not-{stem}")
    for messages in (first, foreign):
        messages.write(5)
    with Group(group_broker, kind, pattern=f"^{stem}-.*") as group:
        group.join()
        group.wait_until_divided(first.places)
        second = numbered(group_broker, 1, f"{stem}-b")
        second.write(5)
        group.wait_until_divided(first.places | second.places, busy=1)
        group.wait_for_all(first)
        group.wait_for_all(second)
        assert {delivery.topic for delivery in group.delivered} == {first.topic, second.topic}


@each_client
def test_two_groups_get_everything_each(group_broker: Broker, kind: Kind) -> None:
    messages = numbered(group_broker, 2)
    with Group(group_broker, kind, messages.topic) as one, Group(group_broker, kind, messages.topic) as other:
        for group in (one, other, one):
            group.join()
        messages.write(50)
        for group in (one, other):
            group.wait_for_all(messages)
            messages.check(group.delivered)


@pytest.mark.parametrize("kind", [RANGE, COOPERATIVE, KAFKA_PYTHON, AIOKAFKA], ids=str)
def test_static_member_that_comes_back_gets_its_partitions_without_a_rebalance(group_broker: Broker, kind: Kind) -> None:
    messages = numbered(group_broker, 2)
    with Group(group_broker, kind, messages.topic, session_timeout_ms=20_000) as group, group_broker.connect() as connection:
        members = [group.join(instance=name) for name in ("one", "two")]
        group.wait_until_divided(messages.places)
        owned = members[0].owned
        before = {member.group_instance_id: member.member_id for member in describe(connection, group.name).members}
        group.leave(members[0])
        returned = group.join(instance="one")
        wait_until(lambda: returned.owned == owned, "the same partitions")
        after = {member.group_instance_id: member.member_id for member in describe(connection, group.name).members}
        assert before["two"] == after["two"]
        if kind is not AIOKAFKA:  # a static member of aiokafka leaves the group when it stops, as older clients did
            assert before["one"] != after["one"]
        messages.write(5)
        group.wait_for_all(messages)


def test_static_member_of_the_new_protocol_comes_back(group_broker: Broker) -> None:
    messages = numbered(group_broker, 2)
    with Group(group_broker, CONSUMER_PROTOCOL, messages.topic) as group:
        members = [group.join(instance=name) for name in ("one", "two")]
        group.wait_until_divided(messages.places)
        owned = members[0].owned
        group.leave(members[0])
        returned = group.join(instance="one")
        wait_until(lambda: returned.owned == owned, "the same partitions")
        messages.write(5)
        group.wait_for_all(messages)
        messages.check(group.delivered)
