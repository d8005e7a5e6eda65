"""What a classic group answers to members that are unknown, late, second or mistaken: Kafka's error codes, at the newest versions."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import IS_KAFKA, Broker, StartBroker
from tests.clients.group_requests import (
    JOIN_GROUP,
    SYNC_GROUP,
    Identity,
    await_coordinator,
    commit,
    connections,
    delete,
    enter,
    form_group,
    heartbeat,
    join,
    join_fields,
    leave,
    send_join,
    subscription,
    sync,
    sync_fields,
)
from tests.connection import Connection
from tests.topics import create_topic, fresh_name
from tests.waiting import wait_until


@pytest.fixture
def group() -> str:
    return fresh_name("group")


def answers_to(connection: Connection, who: Identity, topic: str) -> dict[str, ErrorCode]:
    """What each request of a member is answered."""
    return {
        "heartbeat": heartbeat(connection, who),
        "sync": sync(connection, who).error_code,
        "commit": commit(connection, who, {(topic, 0): 1})[topic, 0],
        "leave": leave(connection, who),
    }


def test_member_of_no_group_is_unknown(group_broker: Broker, group: str) -> None:
    topic, who = create_topic(group_broker), Identity(group, "nobody", 1)
    with group_broker.connect() as connection:
        answers = answers_to(connection, who, topic)
        assert commit(connection, who, {(topic, 0): 1}, version=8) == {(topic, 0): ErrorCode.illegal_generation}
        assert join(connection, group, "nobody").error_code == ErrorCode.unknown_member_id
    assert answers == {
        "heartbeat": ErrorCode.unknown_member_id,
        "sync": ErrorCode.unknown_member_id,
        "commit": ErrorCode.group_id_not_found,
        "leave": ErrorCode.unknown_member_id,
    }


def test_stranger_to_a_living_group_is_unknown(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    with group_broker.connect() as connection:
        who = enter(connection, group)
        answers = answers_to(connection, who._replace(member_id="stranger"), topic)
        assert set(answers.values()) == {ErrorCode.unknown_member_id}
        assert join(connection, group, "stranger").error_code == ErrorCode.unknown_member_id
        assert commit(connection, Identity(group, "", -1), {(topic, 0): 1}) == {(topic, 0): ErrorCode.unknown_member_id}
        assert heartbeat(connection, who) == ErrorCode.none
        leave(connection, who)


@pytest.mark.parametrize("difference", [-1, 1])
def test_generation_that_is_not_the_present_one_is_illegal(group_broker: Broker, group: str, difference: int) -> None:
    topic = create_topic(group_broker)
    with group_broker.connect() as connection:
        who = enter(connection, group)
        other = who._replace(generation=who.generation + difference)
        assert heartbeat(connection, other) == ErrorCode.illegal_generation
        assert sync(connection, other).error_code == ErrorCode.illegal_generation
        assert commit(connection, other, {(topic, 0): 1}) == {(topic, 0): ErrorCode.illegal_generation}
        leave(connection, who)


def test_empty_group_id_is_invalid(group_broker: Broker) -> None:
    with group_broker.connect() as connection:
        who = Identity("", "someone", 1)
        assert join(connection, "").error_code == ErrorCode.invalid_group_id
        assert heartbeat(connection, who) == ErrorCode.invalid_group_id
        assert sync(connection, who).error_code == ErrorCode.invalid_group_id
        assert leave(connection, who) == ErrorCode.invalid_group_id


def test_empty_group_id_is_invalid_also_when_offsets_are_committed_under_it(group_broker: Broker) -> None:
    topic = create_topic(group_broker)
    with group_broker.connect() as connection:
        assert commit(connection, Identity("", "", -1), {(topic, 0): 1}) == {(topic, 0): ErrorCode.none}
        who = Identity("", "someone", 1)
        assert join(connection, "").error_code == ErrorCode.invalid_group_id
        assert heartbeat(connection, who) == ErrorCode.invalid_group_id
        assert sync(connection, who).error_code == ErrorCode.invalid_group_id
        assert leave(connection, who) == ErrorCode.invalid_group_id


@pytest.mark.parametrize("session_timeout_ms", [1, 299, 1_800_001, 2**31 - 1])
def test_session_timeout_outside_of_the_brokers_bounds_is_invalid(group_broker: Broker, group: str, session_timeout_ms: int) -> None:
    with group_broker.connect() as connection:
        answer = join(connection, group, session_timeout_ms=session_timeout_ms)
        assert answer.error_code == ErrorCode.invalid_session_timeout


def test_member_without_a_protocol_in_common_is_inconsistent(group_broker: Broker, group: str) -> None:
    with group_broker.connect() as connection:
        who = enter(connection, group)
        assert join(connection, group, protocols={"other": subscription()}).error_code == ErrorCode.inconsistent_group_protocol
        assert join(connection, group, protocol_type="connect").error_code == ErrorCode.inconsistent_group_protocol
        assert heartbeat(connection, who) == ErrorCode.none
        wrong = connection.ask(SYNC_GROUP, 5, sync_fields(who, protocol="other"))
        assert wrong.error_code == ErrorCode.inconsistent_group_protocol
        leave(connection, who)


def test_member_without_any_protocol_is_inconsistent(group_broker: Broker, group: str) -> None:
    with group_broker.connect() as connection:
        for fields in (join_fields(group) | {"protocols": []}, join_fields(group, protocol_type="")):
            assert connection.ask(JOIN_GROUP, 9, fields).error_code == ErrorCode.inconsistent_group_protocol


def test_protocol_that_most_members_prefer_is_chosen(group_broker: Broker, group: str) -> None:
    wishes = [["a", "b"], ["b", "c", "a"], ["b", "a"]]
    preferences = [{name: subscription(data=b"%d" % at) for name in names} for at, names in enumerate(wishes)]
    with connections(group_broker, 3) as opened:
        first = enter(opened[0], group, protocols=preferences[0])
        for connection, wanted in zip(opened[1:], preferences[1:], strict=True):
            send_join(connection, group, protocols=wanted)
        wait_until(lambda: heartbeat(opened[0], first) == ErrorCode.rebalance_in_progress, "a rebalance")
        leader = join(opened[0], group, first.member_id, protocols=preferences[0])
        followers = [connection.receive(JOIN_GROUP, 9)[1] for connection in opened[1:]]
        assert {answer.protocol_name for answer in (leader, *followers)} == {"b"}
        assert sorted(member.metadata for member in leader.members) == [subscription(data=b"%d" % at) for at in range(3)]
        assert [answer.members for answer in followers] == [(), ()]


def test_leader_divides_and_every_member_gets_its_part(group_broker: Broker, group: str) -> None:
    with connections(group_broker, 4) as opened:
        members, joined = form_group(opened, group)
        assert {answer.leader for answer in joined} == {members[0].member_id}
        assert {member.generation for member in members} == {2}
        for connection, who in zip(opened[1:], members[1:], strict=True):
            connection.send(SYNC_GROUP, 5, sync_fields(who))
        parts = {who.member_id: b"part %d" % number for number, who in enumerate(members)}
        synced = [sync(opened[0], members[0], parts), *(connection.receive(SYNC_GROUP, 5)[1] for connection in opened[1:])]
        assert [answer.assignment for answer in synced] == [b"part 0", b"part 1", b"part 2", b"part 3"]
        assert [heartbeat(connection, who) for connection, who in zip(opened, members, strict=True)] == [ErrorCode.none] * 4
        assert sync(opened[2], members[2]).assignment == b"part 2"


def test_commit_before_the_assignment_waits_for_the_rebalance_to_end(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    with group_broker.connect() as connection:
        joined = join(connection, group)
        who = Identity(group, joined.member_id, joined.generation_id)
        assert heartbeat(connection, who) == ErrorCode.none
        assert commit(connection, who, {(topic, 0): 1}) == {(topic, 0): ErrorCode.rebalance_in_progress}
        assert sync(connection, who, {who.member_id: b""}).error_code == ErrorCode.none
        assert commit(connection, who, {(topic, 0): 1}) == {(topic, 0): ErrorCode.none}


def test_member_commits_and_beats_while_others_are_waited_for(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    with connections(group_broker, 2) as opened:
        who = enter(opened[0], group)
        send_join(opened[1], group)
        wait_until(lambda: heartbeat(opened[0], who) == ErrorCode.rebalance_in_progress, "a rebalance")
        assert commit(opened[0], who, {(topic, 0): 5}) == {(topic, 0): ErrorCode.none}
        assert sync(opened[0], who).error_code == ErrorCode.rebalance_in_progress


def test_member_that_stops_beating_is_found_out_by_its_session_timeout(group_broker: Broker, group: str) -> None:
    with connections(group_broker, 2) as opened:
        members, _ = form_group(opened, group, session_timeout_ms=2_000)
        opened[1].send(SYNC_GROUP, 5, sync_fields(members[1]))
        sync(opened[0], members[0], {who.member_id: b"" for who in members})
        wait_until(lambda: heartbeat(opened[0], members[0]) == ErrorCode.rebalance_in_progress, "the silent member is missed")
        alone = join(opened[0], group, members[0].member_id, session_timeout_ms=2_000)
        assert [member.member_id for member in alone.members] == [members[0].member_id]
        opened[1].receive(SYNC_GROUP, 5)
        assert heartbeat(opened[1], members[1]) == ErrorCode.unknown_member_id


def test_member_that_does_not_join_again_is_dropped_after_its_rebalance_timeout(group_broker: Broker, group: str) -> None:
    with connections(group_broker, 3) as opened:
        timeouts: dict[str, Any] = {"rebalance_timeout_ms": 600, "session_timeout_ms": 10_000}
        late = enter(opened[0], group, **timeouts)
        send_join(opened[1], group, **timeouts)
        _, joined = opened[1].receive(JOIN_GROUP, 9)
        assert (joined.error_code, joined.leader) == (ErrorCode.none, joined.member_id)
        assert heartbeat(opened[0], late) == ErrorCode.unknown_member_id


def test_group_of_the_largest_size_takes_no_more_members(start_broker: StartBroker, group: str) -> None:
    broker = start_broker(group_max_size=2, group_initial_rebalance_delay_ms=0)
    await_coordinator(broker, group)
    with connections(broker, 3) as opened:
        members, _ = form_group(opened[:2], group)
        assert join(opened[2], group).error_code == ErrorCode.group_max_size_reached
        opened[1].send(SYNC_GROUP, 5, sync_fields(members[1]))
        assert sync(opened[0], members[0], {who.member_id: b"" for who in members}).error_code == ErrorCode.none


def test_members_that_leave_together_are_answered_one_by_one(group_broker: Broker, group: str) -> None:
    with connections(group_broker, 2) as opened:
        members, _ = form_group(opened, group)
        leaving = [{"member_id": who.member_id} for who in members] + [{"member_id": "stranger"}]
        answer = opened[0].ask(13, 5, {"group_id": group, "members": leaving})
        assert answer.error_code == ErrorCode.none
        codes = [member.error_code for member in answer.members]
        assert codes == [ErrorCode.none, ErrorCode.none, ErrorCode.unknown_member_id]
        assert delete(opened[0], group) == {group: ErrorCode.none}


def test_group_with_members_is_not_deleted(group_broker: Broker, group: str) -> None:
    with group_broker.connect() as connection:
        who = enter(connection, group)
        assert delete(connection, group) == {group: ErrorCode.non_empty_group}
        assert heartbeat(connection, who) == ErrorCode.none
        leave(connection, who)
        assert delete(connection, group) == {group: ErrorCode.none}


def test_assignment_that_is_too_big_for_the_offsets_topic_leaves_the_group_usable(group_broker: Broker, group: str) -> None:
    with group_broker.connect() as connection:
        joined = join(connection, group)
        who = Identity(group, joined.member_id, joined.generation_id)
        assert sync(connection, who, {who.member_id: bytes(2_000_000)}).error_code != ErrorCode.none
        again = join(connection, group, who.member_id)
        if again.error_code != ErrorCode.none:
            again = join(connection, group)
        who = Identity(group, again.member_id, again.generation_id)
        assert sync(connection, who, {who.member_id: b"small"}).assignment == b"small"
        leave(connection, who)


@pytest.mark.parametrize("junk", [b"", b"x", b"\xff" * 40, b"\x00\x00\x7f\xff\xff\xff", b"subscription"])
@pytest.mark.skipif(IS_KAFKA, reason="Kafka leaves some of these unanswered")
def test_subscription_that_makes_no_sense_is_carried_as_it_is(group_broker: Broker, group: str, junk: bytes) -> None:
    with group_broker.connect() as connection:
        joined = join(connection, group, protocols={"range": junk})
        assert [member.metadata for member in joined.members] == [junk]
        who = Identity(group, joined.member_id, joined.generation_id)
        assert sync(connection, who, {who.member_id: junk}).assignment == junk
        leave(connection, who)
