"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848), spoken by hand: who gets what, when, and what a mistake is answered."""

from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import Broker
from tests.clients.consumer_protocol import LEAVE, LEAVE_FOR_A_WHILE, HandMadeMember, beat_until, describe_consumer_group, sizes
from tests.clients.group_requests import Identity, commit, delete, describe, fetch_committed, leave
from tests.connection import CREATE_PARTITIONS
from tests.topics import create_topic, fresh_name, topic_id
from tests.waiting import wait_until

HEARTBEAT_INTERVAL_S = 0.2


class MakeMember(Protocol):
    """Makes members of the test's own group that are closed at its end."""

    def __call__(self, *topics: str, **settings: Any) -> HandMadeMember: ...


@pytest.fixture
def group() -> str:
    return fresh_name("group")


@pytest.fixture
def member(group_broker: Broker, group: str) -> Iterator[MakeMember]:
    made: list[HandMadeMember] = []

    def make(*topics: str, **settings: Any) -> HandMadeMember:
        made.append(HandMadeMember(group_broker, settings.pop("group", group), topics or None, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("version", [0, 1])
def test_only_member_gets_everything_with_its_first_heartbeat(group_broker: Broker, member: MakeMember, version: int) -> None:
    topic = create_topic(group_broker, partitions=3)
    only = member(topic, version=version)
    answer = only.join()
    identity = topic_id(group_broker, topic)
    assert only.owned == {(identity, 0), (identity, 1), (identity, 2)}
    assert only.epoch >= 1
    assert answer.heartbeat_interval.total_seconds() == HEARTBEAT_INTERVAL_S
    assert only.member_id
    again = only.beat()
    assert (again.member_epoch, again.error_code) == (only.epoch, ErrorCode.none)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_partitions_move_only_after_they_were_given_up(group_broker: Broker, member: MakeMember, assignor: str) -> None:
    topic = create_topic(group_broker, partitions=4)
    first, second = member(topic, assignor=assignor), member(topic, assignor=assignor)
    first.join()
    second.join()
    assert second.owned == set()
    told = first.ask()
    assert (told.error_code, sum(len(part.partitions) for part in told.assignment.topic_partitions)) == (ErrorCode.none, 2)
    for _ in range(3):
        second.beat()
        assert second.owned == set(), "partitions that the first member still holds"
    first.follow(told)
    beat_until([first, second], lambda: sizes([first, second]) == [2, 2], "an even division")
    assert first.owned | second.owned == {(topic_id(group_broker, topic), number) for number in range(4)}
    assert first.epoch == second.epoch


def test_partitions_of_a_member_that_leaves_go_to_the_others(group_broker: Broker, member: MakeMember) -> None:
    topic = create_topic(group_broker, partitions=4)
    first, second = member(topic), member(topic)
    first.join()
    second.join()
    beat_until([first, second], lambda: sizes([first, second]) == [2, 2], "an even division")
    left = first.leave()
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, LEAVE)
    beat_until([second], lambda: len(second.owned) == 4, "everything")
    assert first.ask().error_code == ErrorCode.unknown_member_id


def test_member_that_stops_beating_is_found_out_by_the_session_timeout(group_broker: Broker, member: MakeMember) -> None:
    topic = create_topic(group_broker, partitions=2)
    silent, other = member(topic), member(topic)
    silent.join()
    other.join()
    beat_until([other], lambda: len(other.owned) == 2, "the partitions of the silent member")
    assert silent.ask().error_code == ErrorCode.unknown_member_id


def test_member_that_keeps_what_it_must_give_up_is_fenced_after_its_rebalance_timeout(group_broker: Broker, member: MakeMember) -> None:
    topic = create_topic(group_broker, partitions=2)
    stubborn, other = member(topic, rebalance_timeout_ms=700), member(topic)
    stubborn.join()
    other.join()
    stubborn.ask()

    def is_fenced() -> bool:
        other.beat()
        return bool(stubborn.ask().error_code in (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch))

    wait_until(is_fenced, "the stubborn member is fenced")
    beat_until([other], lambda: len(other.owned) == 2, "everything")


def test_new_partitions_are_assigned_without_being_asked_for(group_broker: Broker, member: MakeMember) -> None:
    topic = create_topic(group_broker, partitions=1)
    only = member(topic)
    only.join()
    assert len(only.owned) == 1
    with group_broker.connect() as connection:
        answer = connection.ask(CREATE_PARTITIONS, 3, {"topics": [{"name": topic, "count": 3, "assignments": None}], "timeout_ms": 10_000})
        assert answer.results[0].error_code == ErrorCode.none
    beat_until([only], lambda: len(only.owned) == 3, "the new partitions")


def test_topic_that_is_created_later_is_assigned(group_broker: Broker, member: MakeMember) -> None:
    name = fresh_name()
    only = member(name)
    only.join()
    assert only.owned == set()
    create_topic(group_broker, name=name, partitions=2)
    beat_until([only], lambda: len(only.owned) == 2, "the new topic")


def test_pattern_finds_topics_that_exist_and_that_come(group_broker: Broker, member: MakeMember) -> None:
    stem = fresh_name("pattern")
    create_topic(group_broker, name=f"{stem}-a", partitions=2)
    create_topic(group_broker, name=f"other-{stem}-a")
    only = member(pattern=f"{stem}-[ab]+")
    only.join()
    beat_until([only], lambda: len(only.owned) == 2, "the topic that matches")
    create_topic(group_broker, name=f"{stem}-b")
    create_topic(group_broker, name=f"{stem}-c")
    wanted = {topic_id(group_broker, f"{stem}-a"), topic_id(group_broker, f"{stem}-b")}
    beat_until([only], lambda: {identity for identity, _ in only.owned} == wanted, "the topic that came")


@pytest.mark.parametrize("pattern", ["(", "a**", "[z-a]", "(?<name", "\\", "(?=look)ahead", r"(a)\1"])
def test_invalid_pattern_is_an_error(member: MakeMember, pattern: str) -> None:
    """Also what RE2 leaves out because it cannot be matched in linear time: looking around and back."""
    answer = member(pattern=pattern).ask(subscribed_topic_regex=pattern, topic_partitions=[], rebalance_timeout_ms=1000)
    assert answer.error_code == ErrorCode.invalid_regular_expression


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a+)+$", "(a|a)*$", "(.*.*.*.*.*.*)x", "a{500}{500}"])
def test_pattern_of_exponential_cost_does_not_block(group_broker: Broker, member: MakeMember, pattern: str) -> None:
    create_topic(group_broker, name=fresh_name("a" * 60))
    only = member(pattern=pattern)
    answer = only.ask(subscribed_topic_regex=pattern, topic_partitions=[], rebalance_timeout_ms=1000)
    assert answer.error_code in (ErrorCode.none, ErrorCode.invalid_regular_expression)
    with group_broker.connect(timeout_s=5) as other:
        assert describe_consumer_group(other, "nobody").error_code == ErrorCode.group_id_not_found


def test_static_member_that_comes_back_gets_the_same_partitions(group_broker: Broker, member: MakeMember) -> None:
    topic = create_topic(group_broker, partitions=4)
    first, second = member(topic, instance="one"), member(topic, instance="two")
    first.join()
    second.join()
    beat_until([first, second], lambda: sizes([first, second]) == [2, 2], "an even division")
    epoch, owned = first.epoch, first.owned
    assert first.leave(LEAVE_FOR_A_WHILE).member_epoch == LEAVE_FOR_A_WHILE
    returned = member(topic, instance="one")
    returned.join()
    beat_until([returned, second], lambda: returned.owned == owned, "the same partitions")
    assert returned.epoch == epoch
    assert len(second.owned) == 2


def test_name_of_a_static_member_that_is_there_is_not_given_away(group_broker: Broker, member: MakeMember) -> None:
    topic = create_topic(group_broker)
    member(topic, instance="one").join()
    second = member(topic, instance="one")
    answer = second.ask(subscribed_topic_names=[topic], topic_partitions=[], rebalance_timeout_ms=1000)
    assert answer.error_code == ErrorCode.unreleased_instance_id


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_request),
        ({"member_id": ""}, ErrorCode.invalid_request),
        ({"rebalance_timeout_ms": -1}, ErrorCode.invalid_request),
        ({"subscribed_topic_names": None}, ErrorCode.invalid_request),
        ({"topic_partitions": None}, ErrorCode.invalid_request),
        ({"instance_id": ""}, ErrorCode.invalid_request),
        ({"rack_id": ""}, ErrorCode.invalid_request),
        ({"member_epoch": -3}, ErrorCode.invalid_request),
        ({"server_assignor": "unknown"}, ErrorCode.unsupported_assignor),
        ({"server_assignor": ""}, ErrorCode.unsupported_assignor),
    ],
    ids=str,
)
def test_first_heartbeat_that_is_wrong_is_an_error(member: MakeMember, fields: dict[str, Any], code: ErrorCode) -> None:
    right = {"subscribed_topic_names": ["t"], "topic_partitions": [], "rebalance_timeout_ms": 1000}
    answer = member().ask(**right | fields)
    assert answer.error_code == code
    assert answer.error_message


def test_epoch_that_is_not_the_present_one_is_fenced(group_broker: Broker, member: MakeMember) -> None:
    only = member(create_topic(group_broker))
    only.join()
    for epoch in (only.epoch + 1, only.epoch + 5):
        assert only.ask(member_epoch=epoch).error_code == ErrorCode.fenced_member_epoch
    assert only.ask(member_id="stranger").error_code == ErrorCode.unknown_member_id
    assert member(group=fresh_name("group")).ask(member_epoch=1).error_code == ErrorCode.group_id_not_found


def test_commits_and_fetches_carry_the_members_epoch(group_broker: Broker, member: MakeMember, group: str) -> None:
    topic = create_topic(group_broker)
    only = member(topic)
    only.join()
    connection, who = only.connection, only.identity
    assert commit(connection, who, {(topic, 0): 7}) == {(topic, 0): ErrorCode.none}
    for version in (2, 5, 8):
        assert commit(connection, who, {(topic, 0): 7}, version=version) == {(topic, 0): ErrorCode.unsupported_version}
    stale = who._replace(generation=who.generation + 1)
    assert commit(connection, stale, {(topic, 0): 8}) == {(topic, 0): ErrorCode.stale_member_epoch}
    assert commit(connection, who._replace(member_id="x"), {(topic, 0): 8}) == {(topic, 0): ErrorCode.unknown_member_id}
    assert commit(connection, Identity(group, "", -1), {(topic, 0): 8}) == {(topic, 0): ErrorCode.unknown_member_id}
    right = fetch_committed(connection, group, {topic: [0]}, member_id=only.member_id, member_epoch=only.epoch)
    assert (right[0], right[1][topic, 0].offset) == (ErrorCode.none, 7)
    assert fetch_committed(connection, group, {topic: [0]})[1][topic, 0].offset == 7
    asked: dict[str, Any] = {"member_id": only.member_id, "member_epoch": only.epoch + 1}
    assert fetch_committed(connection, group, {topic: [0]}, **asked)[0] == ErrorCode.stale_member_epoch
    assert fetch_committed(connection, group, {topic: [0]}, member_id="x", member_epoch=1)[0] == ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", [0, 1])
def test_group_is_described_with_both_assignments(group_broker: Broker, member: MakeMember, group: str, version: int) -> None:
    topic = create_topic(group_broker, partitions=2)
    only = member(topic, assignor="range")
    only.join()
    only.beat()
    described = describe_consumer_group(only.connection, group, version=version)
    assert (described.error_code, described.group_state, described.assignor_name) == (ErrorCode.none, "Stable", "range")
    assert described.group_epoch == described.assignment_epoch == only.epoch
    (found,) = described.members
    assert (found.member_id, found.member_epoch, found.client_id) == (only.member_id, only.epoch, "tests")
    assert found.client_host.lstrip("/") == "127.0.0.1"
    assert list(found.subscribed_topic_names) == [topic]
    for assignment in (found.assignment, found.target_assignment):
        (part,) = assignment.topic_partitions
        assert (part.topic_name, sorted(part.partitions)) == (topic, [0, 1])
    only.leave()
    assert describe_consumer_group(only.connection, group, version=version).group_state == "Empty"


def test_groups_of_the_two_protocols_are_not_described_as_the_other(group_broker: Broker, member: MakeMember, group: str) -> None:
    only = member(create_topic(group_broker))
    only.join()
    assert describe(only.connection, group).error_code == ErrorCode.group_id_not_found
    assert describe(only.connection, group, version=5).group_state == "Dead"
    assert describe_consumer_group(only.connection, fresh_name("group")).error_code == ErrorCode.group_id_not_found


def test_group_with_members_is_not_deleted(group_broker: Broker, member: MakeMember, group: str) -> None:
    only = member(create_topic(group_broker))
    only.join()
    assert delete(only.connection, group) == {group: ErrorCode.non_empty_group}
    only.leave()
    assert delete(only.connection, group) == {group: ErrorCode.none}
    assert describe_consumer_group(only.connection, group).error_code == ErrorCode.group_id_not_found


def test_tool_removes_members_by_their_id_or_instance_id(group_broker: Broker, member: MakeMember, group: str) -> None:
    """`removeMembersFromConsumerGroup` of Java's admin client sends LeaveGroup, whatever the protocol of the group."""
    topic = create_topic(group_broker)
    static, dynamic = member(topic, instance="one"), member(topic)
    static.join()
    dynamic.join()
    with group_broker.connect() as connection:
        assert leave(connection, Identity(group, "", 0, "nobody")) == ErrorCode.unknown_member_id
        assert leave(connection, Identity(group, dynamic.member_id, 0, "one")) == ErrorCode.fenced_instance_id
        assert leave(connection, Identity(group, "", 0, "one")) == ErrorCode.none
        assert leave(connection, Identity(group, dynamic.member_id, 0)) == ErrorCode.none
        assert describe_consumer_group(connection, group).members == ()
    assert dynamic.ask().error_code == ErrorCode.unknown_member_id
