"""Static members (`group.instance.id`, KIP-345): they come back without a rebalance, and of two with one name the older is fenced."""

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import Broker
from tests.clients.group_requests import (
    JOIN_GROUP,
    SYNC_GROUP,
    Identity,
    commit,
    connections,
    describe,
    enter,
    heartbeat,
    join,
    join_fields,
    leave,
    subscription,
    sync,
    sync_fields,
)
from tests.topics import create_topic, fresh_name
from tests.waiting import wait_until


@pytest.fixture
def group() -> str:
    return fresh_name("group")


def test_static_member_needs_no_handshake(group_broker: Broker, group: str) -> None:
    with group_broker.connect() as connection:
        joined = join(connection, group, instance="first")
        assert joined.error_code == ErrorCode.none
        assert joined.member_id.startswith("first-")
        assert [member.group_instance_id for member in joined.members] == ["first"]


def test_static_member_that_comes_back_finds_its_assignment_without_a_rebalance(group_broker: Broker, group: str) -> None:
    with group_broker.connect() as connection:
        who = enter(connection, group, instance="first")
        again = join(connection, group, instance="first")
        assert (again.error_code, again.generation_id) == (ErrorCode.none, who.generation)
        assert again.member_id != who.member_id
        assert again.skip_assignment
        returned = who._replace(member_id=again.member_id)
        assert sync(connection, returned).assignment == b"all"
        assert heartbeat(connection, returned) == ErrorCode.none


def test_static_member_that_changes_the_protocol_of_the_group_starts_a_rebalance(group_broker: Broker, group: str) -> None:
    """Another subscription alone does not, in Kafka: only the leader could act on it, and nobody tells the leader."""
    with group_broker.connect() as connection:
        old, other, new = (subscription(data=data) for data in (b"old", b"other", b"new"))
        who = enter(connection, group, instance="first", protocols={"range": old, "roundrobin": old})
        same = join(connection, group, instance="first", protocols={"range": other, "roundrobin": other})
        assert (same.error_code, same.generation_id) == (ErrorCode.none, who.generation)
        again = join(connection, group, instance="first", protocols={"roundrobin": new, "range": new})
        assert (again.error_code, again.generation_id) == (ErrorCode.none, who.generation + 1)
        assert [member.metadata for member in again.members] == [new]


def test_older_of_two_members_with_one_name_is_fenced(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    with group_broker.connect() as connection:
        who = enter(connection, group, instance="first")
        newer = join(connection, group, instance="first")
        assert newer.error_code == ErrorCode.none
        assert heartbeat(connection, who) == ErrorCode.fenced_instance_id
        assert sync(connection, who).error_code == ErrorCode.fenced_instance_id
        assert commit(connection, who, {(topic, 0): 1}) == {(topic, 0): ErrorCode.fenced_instance_id}
        assert leave(connection, who) == ErrorCode.fenced_instance_id
        assert join(connection, group, who.member_id, instance="first").error_code == ErrorCode.fenced_instance_id
        assert heartbeat(connection, who._replace(member_id=newer.member_id)) == ErrorCode.none


def test_unknown_instance_id_is_an_unknown_member(group_broker: Broker, group: str) -> None:
    with group_broker.connect() as connection:
        who = enter(connection, group, instance="first")
        other = who._replace(instance="second")
        assert heartbeat(connection, other) == ErrorCode.unknown_member_id
        assert leave(connection, other) == ErrorCode.unknown_member_id
        assert join(connection, group, who.member_id, instance="second").error_code == ErrorCode.unknown_member_id


def test_administrator_removes_a_static_member_by_its_name(group_broker: Broker, group: str) -> None:
    with group_broker.connect() as connection:
        who = enter(connection, group, instance="first")
        assert leave(connection, Identity(group, "", -1, "first")) == ErrorCode.none
        assert describe(connection, group).group_state == "Empty"
        assert heartbeat(connection, who) == ErrorCode.unknown_member_id


def test_static_member_that_is_replaced_while_it_waits_is_fenced_where_it_waits(group_broker: Broker, group: str) -> None:
    with connections(group_broker, 3) as opened:
        leader = join(opened[0], group, instance="leader")
        opened[1].send(JOIN_GROUP, 9, join_fields(group, instance="follower"))
        who = Identity(group, leader.member_id, leader.generation_id, "leader")
        wait_until(lambda: heartbeat(opened[0], who) == ErrorCode.rebalance_in_progress, "a rebalance")
        opened[2].send(JOIN_GROUP, 9, join_fields(group, instance="follower"))
        _, fenced = opened[1].receive(JOIN_GROUP, 9)
        assert fenced.error_code == ErrorCode.fenced_instance_id
        again = join(opened[0], group, leader.member_id, instance="leader")
        _, follower = opened[2].receive(JOIN_GROUP, 9)
        assert [again.error_code, follower.error_code] == [ErrorCode.none, ErrorCode.none]
        assert {member.group_instance_id for member in again.members} == {"leader", "follower"}
        second = Identity(group, follower.member_id, follower.generation_id, "follower")
        opened[2].send(SYNC_GROUP, 5, sync_fields(second))
        parts = {again.member_id: b"1", follower.member_id: b"2"}
        assert sync(opened[0], Identity(group, again.member_id, again.generation_id, "leader"), parts).assignment == b"1"
        assert opened[2].receive(SYNC_GROUP, 5)[1].assignment == b"2"
