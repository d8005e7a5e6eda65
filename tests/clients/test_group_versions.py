"""Every group API at every version that Kafka 4.2 answers: the same life of a group, told in old and new words."""

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import Broker
from tests.clients.group_requests import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
    Committed,
    Identity,
    commit,
    commit_alone,
    delete,
    describe,
    enter,
    fetch_committed,
    heartbeat,
    join,
    join_fields,
    leave,
    subscription,
    sync,
)
from tests.clients.test_api_versions import advertised
from tests.topics import create_topic, fresh_name, topic_id

GROUP_APIS = {
    OFFSET_COMMIT: (2, 10), OFFSET_FETCH: (1, 10), JOIN_GROUP: (0, 9), HEARTBEAT: (0, 4), LEAVE_GROUP: (0, 5), SYNC_GROUP: (0, 5),
    DESCRIBE_GROUPS: (0, 6), LIST_GROUPS: (0, 5), DELETE_GROUPS: (0, 2), OFFSET_DELETE: (0, 0), CONSUMER_GROUP_HEARTBEAT: (0, 1),
    CONSUMER_GROUP_DESCRIBE: (0, 1),
}  # fmt: skip
"""What a stock Kafka 4.2 answers."""


def every_version(api_key: int) -> range:
    lowest, highest = GROUP_APIS[api_key]
    return range(lowest, highest + 1)


@pytest.mark.parametrize(("api_key", "versions"), GROUP_APIS.items())
def test_offered_versions_of_group_apis_are_those_of_kafka(group_broker: Broker, api_key: int, versions: tuple[int, int]) -> None:
    assert advertised(group_broker)[api_key] == versions


@pytest.mark.parametrize("version", every_version(JOIN_GROUP))
def test_refused_join_has_no_protocol_name(group_broker: Broker, version: int) -> None:
    """Null as soon as a version has null, as Kafka's own answers; empty before."""
    nothing = None if version >= 7 else ""
    with group_broker.connect() as connection:
        unknown = connection.ask(JOIN_GROUP, version, join_fields(fresh_name("group"), "nobody"))
        nameless = connection.ask(JOIN_GROUP, version, join_fields(""))
        impatient = connection.ask(JOIN_GROUP, version, join_fields(fresh_name("group"), session_timeout_ms=1))
    assert [(answer.error_code, answer.protocol_name) for answer in (unknown, nameless, impatient)] == [
        (ErrorCode.unknown_member_id, nothing),
        (ErrorCode.invalid_group_id, nothing),
        (ErrorCode.invalid_session_timeout, nothing),
    ]


@pytest.mark.parametrize("version", every_version(JOIN_GROUP))
def test_member_joins_syncs_beats_and_leaves(group_broker: Broker, version: int) -> None:
    """The other APIs go along at the version of the same age, as far as they have one."""
    group = fresh_name("group")
    with group_broker.connect() as connection:
        joined = join(connection, group, version=version, protocols={"range": subscription(data=b"mine")})
        assert joined.error_code == ErrorCode.none
        assert joined.leader == joined.member_id
        assert [(member.member_id, member.metadata) for member in joined.members] == [(joined.member_id, subscription(data=b"mine"))]
        assert (joined.generation_id, joined.protocol_name) == (1, "range")
        if version >= 7:
            assert joined.protocol_type == "consumer"
        who = Identity(group, joined.member_id, joined.generation_id)
        synced = sync(connection, who, {who.member_id: b"yours"}, version=min(version, 5))
        assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"yours")
        if min(version, 5) >= 5:
            assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
        assert heartbeat(connection, who, version=min(version, 4)) == ErrorCode.none
        assert leave(connection, who, version=min(version, 5)) == ErrorCode.none
        assert heartbeat(connection, who, version=min(version, 4)) == ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", every_version(JOIN_GROUP))
def test_member_id_is_asked_back_from_version_4(group_broker: Broker, version: int) -> None:
    with group_broker.connect() as connection:
        answer = connection.ask(JOIN_GROUP, version, join_fields(fresh_name("group")))
    assert answer.error_code == (ErrorCode.member_id_required if version >= 4 else ErrorCode.none)
    assert answer.member_id.startswith("tests-")


@pytest.mark.parametrize("version", every_version(OFFSET_COMMIT))
def test_committed_offset_is_fetched_as_it_was_committed(group_broker: Broker, version: int) -> None:
    group, topic = fresh_name("group"), create_topic(group_broker, partitions=2)
    ids = {topic: topic_id(group_broker, topic)}
    with group_broker.connect() as connection:
        done = commit(connection, Identity(group, "", -1), {(topic, 1): 42}, version=version, metadata="a note", ids=ids)
        assert done == {(topic, 1): ErrorCode.none}
        for fetch_version in every_version(OFFSET_FETCH):
            error, found = fetch_committed(connection, group, {topic: [0, 1]}, version=fetch_version, ids=ids)
            assert error == ErrorCode.none
            assert found == {(topic, 0): Committed(-1, "", ErrorCode.none), (topic, 1): Committed(42, "a note", ErrorCode.none)}
            if fetch_version >= 2:
                everything = fetch_committed(connection, group, None, version=fetch_version, ids=ids)
                assert everything == (ErrorCode.none, {(topic, 1): Committed(42, "a note", ErrorCode.none)})


@pytest.mark.parametrize("version", every_version(OFFSET_COMMIT))
def test_member_commits_and_a_stale_generation_does_not(group_broker: Broker, version: int) -> None:
    group, topic = fresh_name("group"), create_topic(group_broker)
    ids = {topic: topic_id(group_broker, topic)}
    with group_broker.connect() as connection:
        who = enter(connection, group)
        assert commit(connection, who, {(topic, 0): 1}, version=version, ids=ids) == {(topic, 0): ErrorCode.none}
        stale = who._replace(generation=who.generation - 1)
        assert commit(connection, stale, {(topic, 0): 2}, version=version, ids=ids) == {(topic, 0): ErrorCode.illegal_generation}
        leave(connection, who)


@pytest.mark.parametrize("version", every_version(DESCRIBE_GROUPS))
def test_group_is_described(group_broker: Broker, version: int) -> None:
    group = fresh_name("group")
    with group_broker.connect() as connection:
        who = enter(connection, group, protocols={"range": subscription("a", "b")})
        described = describe(connection, group, version=version)
        assert (described.error_code, described.group_state) == (ErrorCode.none, "Stable")
        assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
        (member,) = described.members
        assert (member.member_id, member.client_id) == (who.member_id, "tests")
        assert member.client_host.lstrip("/") == "127.0.0.1"
        assert (member.member_metadata, member.member_assignment) == (subscription("a", "b"), b"all")
        leave(connection, who)
        assert describe(connection, group, version=version).group_state == "Empty"


@pytest.mark.parametrize("version", every_version(DESCRIBE_GROUPS))
def test_group_that_does_not_exist_is_dead_or_from_version_6_not_found(group_broker: Broker, version: int) -> None:
    with group_broker.connect() as connection:
        described = describe(connection, fresh_name("group"), version=version)
    assert described.group_state == "Dead"
    assert described.members == ()
    assert described.error_code == (ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none)


@pytest.mark.parametrize("version", every_version(LIST_GROUPS))
def test_groups_are_listed(group_broker: Broker, version: int) -> None:
    group, empty, topic = fresh_name("group"), fresh_name("group"), create_topic(group_broker)
    with group_broker.connect() as connection:
        who = enter(connection, group)
        commit_alone(connection, empty, topic, 1)
        answer = connection.ask(LIST_GROUPS, version, {})
        assert answer.error_code == ErrorCode.none
        listed = {found.group_id: found for found in answer.groups}
        assert (listed[group].protocol_type, listed[empty].protocol_type) == ("consumer", "")
        if version >= 4:
            assert (listed[group].group_state, listed[empty].group_state) == ("Stable", "Empty")
        if version >= 5:
            assert {listed[group].group_type, listed[empty].group_type} == {"classic"}
        leave(connection, who)


@pytest.mark.parametrize("version", every_version(DELETE_GROUPS))
def test_empty_group_is_deleted_with_its_offsets(group_broker: Broker, version: int) -> None:
    group, missing, topic = fresh_name("group"), fresh_name("group"), create_topic(group_broker)
    with group_broker.connect() as connection:
        commit_alone(connection, group, topic, 7)
        done = delete(connection, group, missing, version=version)
        assert done == {group: ErrorCode.none, missing: ErrorCode.group_id_not_found}
        assert fetch_committed(connection, group, None) == (ErrorCode.none, {})
        assert group not in {found.group_id for found in connection.ask(LIST_GROUPS, 4, {}).groups}
