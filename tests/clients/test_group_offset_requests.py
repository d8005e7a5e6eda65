"""OffsetCommit, OffsetFetch and OffsetDelete, byte for byte: unknown partitions, big notes, many groups in one request, deleted topics."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode

from tests.brokers import IS_KAFKA, Broker
from tests.clients.group_requests import (
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    Committed,
    Identity,
    commit,
    commit_alone,
    committed_offset,
    enter,
    fetch_committed,
    leave,
    subscription,
)
from tests.connection import Connection, decode_response, encode_request
from tests.topics import create_topic, delete_topic, fresh_name, topic_id
from tests.waiting import wait_until

MAX_METADATA_BYTES = 4096
NOBODY = -1


@pytest.fixture
def group() -> str:
    return fresh_name("group")


def alone(group: str) -> Identity:
    """A consumer that assigns its own partitions."""
    return Identity(group, "", NOBODY)


def test_partition_that_does_not_exist_is_refused_and_the_others_are_kept(group_broker: Broker, group: str) -> None:
    topic, missing = create_topic(group_broker, partitions=2), fresh_name()
    with group_broker.connect() as connection:
        done = commit(connection, alone(group), {(topic, 1): 5, (topic, 2): 5, (topic, -1): 5, (missing, 0): 5})
        unknown = ErrorCode.unknown_topic_or_partition
        assert done == {(topic, 1): ErrorCode.none, (topic, 2): unknown, (topic, -1): unknown, (missing, 0): unknown}
        assert fetch_committed(connection, group, None)[1].keys() == {(topic, 1)}


def test_topic_id_that_does_not_exist_is_an_error(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    ids = {topic: topic_id(group_broker, topic), "gone": uuid4()}
    with group_broker.connect() as connection:
        done = commit(connection, alone(group), {(topic, 0): 5, ("gone", 0): 5}, version=10, ids=ids)
        assert done == {(topic, 0): ErrorCode.none, ("gone", 0): ErrorCode.unknown_topic_id}
        error, found = fetch_committed(connection, group, {topic: [0], "gone": [0]}, version=10, ids=ids)
        assert error == ErrorCode.none
        assert found[topic, 0] == Committed(5, "", ErrorCode.none)
        assert found["gone", 0].error_code == ErrorCode.unknown_topic_id


def test_note_that_is_too_long_is_refused_and_the_longest_is_kept(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    with group_broker.connect() as connection:
        longest = "x" * MAX_METADATA_BYTES
        assert commit(connection, alone(group), {(topic, 0): 1}, metadata=longest) == {(topic, 0): ErrorCode.none}
        too_long = commit(connection, alone(group), {(topic, 0): 2}, metadata=longest + "x")
        assert too_long == {(topic, 0): ErrorCode.offset_metadata_too_large}
        assert fetch_committed(connection, group, {topic: [0]})[1] == {(topic, 0): Committed(1, longest, ErrorCode.none)}


def test_missing_note_comes_back_empty(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    with group_broker.connect() as connection:
        commit_alone(connection, group, topic, 3, metadata=None)
        assert fetch_committed(connection, group, {topic: [0]})[1] == {(topic, 0): Committed(3, "", ErrorCode.none)}


def test_offset_may_go_back_and_beyond_the_end(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    with group_broker.connect() as connection:
        for offset in (10, 3, 2**62, 0):
            commit_alone(connection, group, topic, offset)
            assert committed_offset(connection, group, topic) == offset


def test_leader_epoch_of_a_commit_comes_back(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    entry = {"partition_index": 0, "committed_offset": 4, "committed_leader_epoch": 3, "committed_metadata": ""}
    fields = {"group_id": group, "member_id": "", "topics": [{"name": topic, "partitions": [entry]}]}
    with group_broker.connect() as connection:
        assert connection.ask(OFFSET_COMMIT, 9, fields).topics[0].partitions[0].error_code == ErrorCode.none
        answer = connection.ask(OFFSET_FETCH, 9, {"groups": [{"group_id": group, "topics": None}]})
        (partition,) = answer.groups[0].topics[0].partitions
        assert (partition.committed_offset, partition.committed_leader_epoch) == (4, 3)


def test_several_groups_are_fetched_at_once(group_broker: Broker) -> None:
    groups, topic = [fresh_name("group") for _ in range(3)], create_topic(group_broker)
    with group_broker.connect() as connection:
        for number, group in enumerate(groups):
            commit_alone(connection, group, topic, number)
        asked = [{"group_id": group, "topics": None} for group in [*groups, "nobody"]]
        answer = connection.ask(OFFSET_FETCH, 8, {"groups": asked, "require_stable": True})
        found = {
            one.group_id: [partition.committed_offset for each in one.topics for partition in each.partitions] for one in answer.groups
        }
        assert found == {groups[0]: [0], groups[1]: [1], groups[2]: [2], "nobody": []}
        assert {one.error_code for one in answer.groups} == {ErrorCode.none}


def test_group_that_does_not_exist_has_no_offsets_and_that_is_no_error(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    with group_broker.connect() as connection:
        assert fetch_committed(connection, group, None) == (ErrorCode.none, {})
        assert fetch_committed(connection, group, {topic: [0]}) == (ErrorCode.none, {(topic, 0): Committed(-1, "", ErrorCode.none)})


def test_offsets_of_a_member_outlive_it(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    with group_broker.connect() as connection:
        who = enter(connection, group)
        assert commit(connection, who, {(topic, 0): 9}) == {(topic, 0): ErrorCode.none}
        leave(connection, who)
        assert committed_offset(connection, group, topic) == 9
        assert commit(connection, alone(group), {(topic, 0): 10}) == {(topic, 0): ErrorCode.none}


def delete_offsets(connection: Connection, group: str, topic: str, *partitions: int) -> Any:
    entries = [{"partition_index": partition} for partition in partitions]
    return connection.ask(OFFSET_DELETE, 0, {"group_id": group, "topics": [{"name": topic, "partitions": entries}]})


def test_deleted_offset_is_gone_and_the_others_stay(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker, partitions=2)
    with group_broker.connect() as connection:
        commit_alone(connection, group, topic, 1, partition=0)
        commit_alone(connection, group, topic, 2, partition=1)
        answer = delete_offsets(connection, group, topic, 0, 7)
        codes = {partition.partition_index: partition.error_code for partition in answer.topics[0].partitions}
        assert (answer.error_code, codes) == (ErrorCode.none, {0: ErrorCode.none, 7: ErrorCode.unknown_topic_or_partition})
        assert fetch_committed(connection, group, None)[1] == {(topic, 1): Committed(2, "", ErrorCode.none)}


def test_offsets_of_a_group_that_does_not_exist_cannot_be_deleted(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    with group_broker.connect() as connection:
        assert delete_offsets(connection, group, topic, 0).error_code == ErrorCode.group_id_not_found


def test_offsets_of_a_topic_that_a_member_is_subscribed_to_cannot_be_deleted(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    with group_broker.connect() as connection:
        who = enter(connection, group, protocols={"range": subscription(topic)})
        commit(connection, who, {(topic, 0): 1})
        answer = delete_offsets(connection, group, topic, 0)
        assert answer.error_code == ErrorCode.none
        assert answer.topics[0].partitions[0].error_code == ErrorCode.group_subscribed_to_topic
        leave(connection, who)
        assert delete_offsets(connection, group, topic, 0).topics[0].partitions[0].error_code == ErrorCode.none


def test_offsets_of_a_deleted_topic_go_with_it(group_broker: Broker, group: str) -> None:
    topic, kept = create_topic(group_broker), create_topic(group_broker)
    with group_broker.connect() as connection:
        commit_alone(connection, group, topic, 1)
        commit_alone(connection, group, kept, 2)
        delete_topic(group_broker, topic)
        wait_until(lambda: fetch_committed(connection, group, None)[1].keys() == {(kept, 0)}, "the offsets of the topic are gone")


def test_thousands_of_groups_of_one_client_are_kept(group_broker: Broker) -> None:
    """Pipelined, as a client that never waits would send them."""
    topic, stem, count = create_topic(group_broker), fresh_name("many"), 2000
    before = group_broker.resident_bytes()
    with group_broker.connect() as connection:
        for start in range(0, count, 100):
            frames = [_commit_frame(f"{stem}-{number}", topic, number) for number in range(start, start + 100)]
            connection.socket.sendall(b"".join(frames))
            for _ in range(start, start + 100):
                _, answer = decode_response(OFFSET_COMMIT, 9, connection.receive_frame())
                assert answer.topics[0].partitions[0].error_code == ErrorCode.none
        listed = {found.group_id for found in connection.ask(LIST_GROUPS, 4, {}).groups}
        assert listed >= {f"{stem}-{number}" for number in range(count)}
        for number in (0, 1, count - 1):
            assert committed_offset(connection, f"{stem}-{number}", topic) == number
    if not IS_KAFKA:
        assert group_broker.resident_bytes() - before < 32 << 20


def _commit_frame(group: str, topic: str, offset: int) -> bytes:
    entry = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    fields = {"group_id": group, "member_id": "", "topics": [{"name": topic, "partitions": [entry]}]}
    return encode_request(OFFSET_COMMIT, 9, fields)


def test_ids_of_topics_are_uuids_in_answers(group_broker: Broker, group: str) -> None:
    topic = create_topic(group_broker)
    with group_broker.connect() as connection:
        commit_alone(connection, group, topic, 1)
        answer = connection.ask(OFFSET_FETCH, 10, {"groups": [{"group_id": group, "topics": None}]})
        (found,) = answer.groups[0].topics
        assert found.topic_id == topic_id(group_broker, topic)
        assert isinstance(found.topic_id, UUID)
