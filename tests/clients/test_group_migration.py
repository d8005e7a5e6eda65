"""Groups with members that change their protocol, request by request: what Kafka 4.2 answers (run it with MILLSTREAM_TEST_PEER=kafka)."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import Broker, StartBroker
from tests.clients.consumer_protocol import LEAVE_FOR_A_WHILE, HandMadeMember, describe_consumer_group
from tests.clients.group_broker import GROUP_OPTIONS
from tests.clients.group_requests import (
    JOIN_GROUP,
    LIST_GROUPS,
    SYNC_GROUP,
    Identity,
    await_coordinator,
    commit,
    committed_offset,
    fetch_committed,
    form_group,
    heartbeat,
    join,
    join_fields,
    leave,
    subscription,
    sync_fields,
)
from tests.connection import Connection
from tests.topics import create_topic, fresh_name

OK, REBALANCE_IN_PROGRESS = ErrorCode.none, ErrorCode.rebalance_in_progress
PARTITIONS = 4


def owning(topic: str, *owned: int) -> bytes:
    """A subscription of version 1, which says what the member owns."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    held = struct.pack(f">i{len(owned)}i", len(owned), *owned)
    return struct.pack(">hi", 1, 1) + name + struct.pack(">ii", -1, 1) + name + held


def assignment(topic: str, *partitions: int, version: int = 0) -> bytes:
    """What a leader assigns, and what a member is told."""
    if not partitions:
        return struct.pack(">hii", version, 0, -1)
    name = struct.pack(">h", len(topic)) + topic.encode()
    return struct.pack(">hi", version, 1) + name + struct.pack(f">i{len(partitions)}ii", len(partitions), *partitions, -1)


def partitions_of(content: bytes) -> set[int]:
    """The partitions in an assignment of one topic."""
    version, topics = struct.unpack_from(">hi", content)
    assert version in (0, 1)
    if not topics:
        return set()
    (size,) = struct.unpack_from(">h", content, 6)
    (count,) = struct.unpack_from(">i", content, 8 + size)
    return set(struct.unpack_from(f">{count}i", content, 12 + size))


class Classic:
    """A classic member on its connection; says what it owns, as a cooperative client does."""

    def __init__(self, connection: Connection, who: Identity, topic: str, owned: set[int]) -> None:
        self.connection, self.who, self.topic, self.owned = connection, who, topic, owned

    def beat(self) -> ErrorCode:
        """A heartbeat."""
        return heartbeat(self.connection, self.who)

    def protocols(self) -> dict[str, bytes]:
        """What it offers."""
        return {"range": owning(self.topic, *sorted(self.owned))}

    def join(self) -> Any:
        """JoinGroup; must succeed."""
        answer = join(self.connection, self.who.group, self.who.member_id, instance=self.who.instance, protocols=self.protocols())
        assert answer.error_code == OK, answer
        self.who = self.who._replace(member_id=answer.member_id, generation=answer.generation_id)
        return answer

    def sync(self) -> ErrorCode:
        """SyncGroup, and take over what it says."""
        answer = self.connection.ask(SYNC_GROUP, 5, sync_fields(self.who))
        if answer.error_code == OK:
            self.owned = partitions_of(answer.assignment)
        code: ErrorCode = answer.error_code
        return code


@contextmanager
def classic_group(broker: Broker, topic: str, *, count: int = 2) -> Iterator[list[Classic]]:
    """A stable classic group whose members share four partitions."""
    opened = [broker.connect() for _ in range(count)]
    try:
        members = _join_all(opened, fresh_name("group"), topic)
        shares = [set(range(index, PARTITIONS, count)) for index in range(count)]
        given = {who.member_id: assignment(topic, *sorted(share)) for who, share in zip(members, shares, strict=True)}
        for connection, who in zip(opened[1:], members[1:], strict=True):
            connection.send(SYNC_GROUP, 5, sync_fields(who))
        assert opened[0].ask(SYNC_GROUP, 5, sync_fields(members[0], given)).error_code == OK
        for connection in opened[1:]:
            assert connection.receive(SYNC_GROUP, 5)[1].error_code == OK
        yield [Classic(connection, who, topic, share) for connection, who, share in zip(opened, members, shares, strict=True)]
    finally:
        for connection in opened:
            connection.close()


def _join_all(opened: list[Connection], group: str, topic: str) -> list[Identity]:
    protocols = {"range": owning(topic)}
    if len(opened) > 1:
        return form_group(opened, group, protocols=protocols)[0]
    joined = join(opened[0], group, protocols=protocols)
    return [Identity(group, joined.member_id, joined.generation_id)]


def kind_of(connection: Connection, group: str) -> tuple[str, str]:
    """Type and state, as ListGroups shows them."""
    answer = connection.ask(LIST_GROUPS, 5, {"states_filter": [], "types_filter": []})
    ((kind, state),) = [(one.group_type, one.group_state) for one in answer.groups if one.group_id == group]
    return kind.lower(), state


@pytest.fixture
def topic(group_broker: Broker) -> str:
    return create_topic(group_broker, partitions=PARTITIONS)


def test_live_classic_group_takes_in_a_member_of_the_new_protocol_and_is_classic_again_without_it(group_broker: Broker, topic: str) -> None:
    with classic_group(group_broker, topic) as members, group_broker.connect() as connection:
        one, two = members
        group = one.who.group
        generation = one.who.generation
        assert commit(connection, one.who, {(topic, 0): 5}) == {(topic, 0): OK}
        new = HandMadeMember(group_broker, group, [topic])
        answer = new.join()
        assert (answer.member_epoch, new.owned) == (generation + 1, set())
        assert kind_of(connection, group)[0] == "consumer"
        described = describe_consumer_group(connection, group)
        assert sorted((one.member_type, one.member_epoch) for one in described.members) == [(0, generation)] * 2 + [(1, generation + 1)]
        # Each classic member is told to join, and moves on its own.
        assert one.beat() == two.beat() == one.sync() == REBALANCE_IN_PROGRESS
        assert commit(connection, one.who, {(topic, 0): 6}) == {(topic, 0): OK}, "in its own generation"
        changed = 0
        for member in members:
            answer = member.join()
            assert (answer.leader, answer.members, answer.protocol_type, answer.protocol_name) == ("", (), "consumer", "range")
            before = set(member.owned)
            assert member.sync() == OK
            if member.owned != before:
                assert member.who.generation == generation, "it has to say first that it gave something up"
                assert member.beat() == REBALANCE_IN_PROGRESS
                changed += member.join().generation_id == generation + 1
                assert member.sync() == OK
            assert (member.beat(), member.who.generation) == (OK, generation + 1)
        assert changed == 1
        new.beat()
        assert len(new.owned) == 1
        assert len(one.owned | two.owned) == 3
        assert commit(connection, one.who._replace(generation=generation), {(topic, 0): 7}) == {(topic, 0): ErrorCode.illegal_generation}
        assert fetch_committed(connection, group, {topic: [0]}, version=9)[0] == OK
        # Back again.
        assert new.leave().error_code == OK
        assert kind_of(connection, group) == ("classic", "PreparingRebalance")
        assert one.beat() == two.beat() == REBALANCE_IN_PROGRESS
        two.connection.send(JOIN_GROUP, 9, join_fields(group, two.who.member_id, protocols=two.protocols()))
        answer = one.join()
        assert (answer.generation_id, two.connection.receive(JOIN_GROUP, 9)[1].generation_id) == (generation + 2, generation + 2)
        assert len(answer.members) in (0, 2)
        assert committed_offset(connection, group, topic) == 6
        new.close()


def test_last_classic_member_that_leaves_makes_it_a_group_of_the_new_protocol_alone(group_broker: Broker, topic: str) -> None:
    with classic_group(group_broker, topic, count=1) as (one,), group_broker.connect() as connection:
        new = HandMadeMember(group_broker, one.who.group, [topic])
        new.join()
        assert leave(one.connection, one.who) == OK
        new.beat()
        assert len(new.owned) == PARTITIONS
        assert [member.member_type for member in describe_consumer_group(connection, one.who.group).members] == [1]
        new.close()


def test_classic_requests_of_a_member_that_is_none_are_refused(group_broker: Broker, topic: str) -> None:
    with classic_group(group_broker, topic, count=1) as (one,), group_broker.connect() as connection:
        group = one.who.group
        new = HandMadeMember(group_broker, group, [topic])
        new.join()
        answers = [
            heartbeat(connection, new.identity),
            connection.ask(SYNC_GROUP, 5, sync_fields(new.identity)).error_code,
            heartbeat(connection, one.who._replace(generation=17)),
            connection.ask(SYNC_GROUP, 5, sync_fields(one.who._replace(generation=17))).error_code,
            connection.ask(SYNC_GROUP, 5, sync_fields(one.who, protocol="other")).error_code,
            heartbeat(connection, Identity(group, "nobody", 1)),
            heartbeat(connection, one.who._replace(instance="unknown")),
            leave(connection, Identity(group, "nobody", 1)),
        ]
        unknown, illegal = ErrorCode.unknown_member_id, ErrorCode.illegal_generation
        assert answers == [unknown, unknown, illegal, illegal, ErrorCode.inconsistent_group_protocol, unknown, unknown, unknown]
        joins = [
            connection.ask(JOIN_GROUP, 9, join_fields(group, protocols={"other": subscription(topic)})),
            connection.ask(JOIN_GROUP, 9, join_fields(group, protocol_type="connect")),
            connection.ask(JOIN_GROUP, 9, join_fields(group, "known", protocols={"range": b""})),
            connection.ask(JOIN_GROUP, 9, join_fields(group, "known", session_timeout_ms=1)),
        ]
        assert [(answer.error_code, answer.member_id, answer.protocol_name, answer.generation_id) for answer in joins] == [
            (ErrorCode.inconsistent_group_protocol, "", None, -1),
            (ErrorCode.inconsistent_group_protocol, "", None, -1),
            (ErrorCode.unknown_server_error, "", None, -1),
            (ErrorCode.invalid_session_timeout, "known", None, -1),
        ]
        first = connection.ask(JOIN_GROUP, 9, join_fields(group))
        assert (first.error_code, first.protocol_name) == (ErrorCode.member_id_required, None)
        assert connection.ask(JOIN_GROUP, 9, join_fields(group, first.member_id)).error_code == OK
        new.close()


def test_static_member_moves_from_one_protocol_to_the_other_and_back(group_broker: Broker, topic: str) -> None:
    group = fresh_name("group")
    with group_broker.connect() as connection:
        joined = join(connection, group, instance="i", protocols={"range": owning(topic)})
        one = Classic(connection, Identity(group, joined.member_id, joined.generation_id, "i"), topic, {0, 1, 2, 3})
        connection.ask(SYNC_GROUP, 5, sync_fields(one.who, {one.who.member_id: assignment(topic, 0, 1, 2, 3)}))
        new = HandMadeMember(group_broker, group, [topic], instance="i")
        answer = new.join()
        assert (answer.member_epoch, len(new.owned)) == (joined.generation_id, PARTITIONS), "it takes over what the classic one had"
        assert one.beat() == ErrorCode.fenced_instance_id
        second = HandMadeMember(group_broker, group, [topic], instance="i")
        refused = second.ask(topic_partitions=[], rebalance_timeout_ms=1_000, subscribed_topic_names=[topic])
        assert refused.error_code == ErrorCode.unreleased_instance_id
        assert new.leave(LEAVE_FOR_A_WHILE).error_code == OK
        back = join(connection, group, instance="i", protocols={"range": owning(topic)})
        assert (back.error_code, back.generation_id, back.leader) == (OK, new.epoch, "")
        assert kind_of(connection, group) == ("classic", "Stable")
        one.who = Identity(group, back.member_id, back.generation_id, "i")
        assert (one.sync(), one.owned, one.beat()) == (OK, {0, 1, 2, 3}, OK)
        new.close()
        second.close()


def test_group_of_other_things_than_consumers_is_not_converted(group_broker: Broker, topic: str) -> None:
    with group_broker.connect() as connection:
        group = fresh_name("group")
        joined = join(connection, group, protocol_type="connect")
        who = Identity(group, joined.member_id, joined.generation_id)
        fields = sync_fields(who, {who.member_id: b"all"}) | {"protocol_type": "connect"}
        assert connection.ask(SYNC_GROUP, 5, fields).error_code == OK
        for data in (None, assignment(topic, 0)[:3], assignment(topic, 0)[:-4] + struct.pack(">i", 1) + b"x"):
            if data is not None:
                group = fresh_name("group")
                joined = join(connection, group, protocols={"range": owning(topic)})
                who = Identity(group, joined.member_id, joined.generation_id)
                assert connection.ask(SYNC_GROUP, 5, sync_fields(who, {who.member_id: data})).error_code == OK
            new = HandMadeMember(group_broker, group, [topic])
            answer = new.ask(topic_partitions=[], rebalance_timeout_ms=1_000, subscribed_topic_names=[topic])
            assert answer.error_code == ErrorCode.group_id_not_found
            assert heartbeat(connection, who) == OK
            new.close()


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [("disabled", False, False), ("Upgrade", True, False), ("downgrade", False, True), ("bidirectional", True, True)],
)
def test_migration_policy_is_obeyed(start_broker: StartBroker, policy: str, *, upgrades: bool, downgrades: bool) -> None:
    options = {name.replace(".", "_"): value for name, value in GROUP_OPTIONS.items()}
    broker = start_broker(data=None, start=True, group_consumer_migration_policy=policy, **options)
    await_coordinator(broker)
    topic = create_topic(broker, partitions=PARTITIONS)
    with classic_group(broker, topic, count=1) as (one,), broker.connect() as connection:
        new = HandMadeMember(broker, one.who.group, [topic])
        answer = new.ask(topic_partitions=[], rebalance_timeout_ms=1_000, subscribed_topic_names=[topic])
        assert answer.error_code == (OK if upgrades else ErrorCode.group_id_not_found)
        new.close()
        # A classic member may always join; whether the group is classic when it is alone is the other half of the policy.
        other = HandMadeMember(broker, fresh_name("group"), [topic])
        other.join()
        joined = join(connection, other.group, protocols={"range": owning(topic)})
        assert joined.error_code == OK
        assert other.leave().error_code == OK
        assert kind_of(connection, other.group)[0] == ("classic" if downgrades else "consumer")
        other.close()
