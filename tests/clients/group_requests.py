"""The requests of consumer groups over a raw connection, each at any version, so that a test says what it means and nothing else.

An answer is the entity that kio read; for APIs whose shape changed (OffsetCommit and OffsetFetch by name or by id, one group or many) the
functions here give the same shape at every version.
"""

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from tests.brokers import Broker
from tests.connection import FIND_COORDINATOR, Connection
from tests.topics import fresh_name
from tests.waiting import wait_until

OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS = 8, 9, 11, 12, 13, 14, 15, 16
DELETE_GROUPS, OFFSET_DELETE, CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE = 42, 47, 68, 69

SESSION_TIMEOUT_MS = 10_000
NOT_YET = (ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator)


class Identity(NamedTuple):
    """Who a member of a classic group is."""

    group: str
    member_id: str
    generation: int
    instance: str | None = None


class Committed(NamedTuple):
    """What OffsetFetch said of one partition."""

    offset: int
    metadata: str | None
    error_code: ErrorCode


def await_coordinator(broker: Broker, group: str = "") -> None:
    """Wait until the coordinator of the group has its partition of the offsets topic, as every client does before it joins."""
    group = group or fresh_name("group")

    def is_there() -> bool:
        with broker.connect() as connection:
            found = connection.ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [group]}).coordinators[0]
            if found.error_code in NOT_YET:
                return False
            assert found.error_code == ErrorCode.none, found
            answer = connection.ask(OFFSET_FETCH, 8, {"groups": [{"group_id": group, "topics": None}]})
            return answer.groups[0].error_code not in NOT_YET

    wait_until(is_there, f"coordinator of {group}")


def subscription(*topics: str, data: bytes = b"") -> bytes:
    """What a consumer tells the leader that it wants, in version 0 of the consumers' own protocol; brokers look into it for the topics."""
    names = b"".join(struct.pack(">h", len(name.encode())) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", len(data)) + data


def join_fields(
    group: str,
    member_id: str = "",
    *,
    instance: str | None = None,
    protocols: Mapping[str, bytes] | None = None,
    protocol_type: str = "consumer",
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
    rebalance_timeout_ms: int = SESSION_TIMEOUT_MS,
) -> dict[str, object]:
    """A JoinGroup request."""
    return {
        "group_id": group,
        "session_timeout_ms": session_timeout_ms,
        "rebalance_timeout_ms": rebalance_timeout_ms,
        "member_id": member_id,
        "group_instance_id": instance,
        "protocol_type": protocol_type,
        "protocols": [{"name": name, "metadata": data} for name, data in (protocols or {"range": subscription()}).items()],
    }


def join(connection: Connection, group: str, member_id: str = "", *, version: int = 9, **fields: Any) -> Any:
    """JoinGroup, with the handshake that gives a dynamic member its id first (KIP-394, from version 4)."""
    answer = connection.ask(JOIN_GROUP, version, join_fields(group, member_id, **fields))
    if answer.error_code == ErrorCode.member_id_required:
        answer = connection.ask(JOIN_GROUP, version, join_fields(group, answer.member_id, **fields))
    return answer


def send_join(connection: Connection, group: str, *, version: int = 9, **fields: Any) -> str:
    """The handshake, then a JoinGroup whose answer is not waited for; returns the member id."""
    first = connection.ask(JOIN_GROUP, version, join_fields(group, **fields))
    assert first.error_code == ErrorCode.member_id_required, first
    connection.send(JOIN_GROUP, version, join_fields(group, first.member_id, **fields))
    member_id: str = first.member_id
    return member_id


def sync(connection: Connection, who: Identity, assignments: Mapping[str, bytes] | None = None, *, version: int = 5) -> Any:
    """SyncGroup."""
    return connection.ask(SYNC_GROUP, version, sync_fields(who, assignments))


def sync_fields(who: Identity, assignments: Mapping[str, bytes] | None = None, *, protocol: str = "range") -> dict[str, object]:
    """A SyncGroup request; only a leader gives assignments."""
    given = [{"member_id": member_id, "assignment": data} for member_id, data in (assignments or {}).items()]
    return identity_fields(who) | {"protocol_type": "consumer", "protocol_name": protocol, "assignments": given}


def identity_fields(who: Identity) -> dict[str, object]:
    """What every request of a member carries."""
    return {"group_id": who.group, "generation_id": who.generation, "member_id": who.member_id, "group_instance_id": who.instance}


def heartbeat(connection: Connection, who: Identity, *, version: int = 4) -> ErrorCode:
    """Heartbeat."""
    code: ErrorCode = connection.ask(HEARTBEAT, version, identity_fields(who)).error_code
    return code


def leave(connection: Connection, who: Identity, *, version: int = 5) -> ErrorCode:
    """LeaveGroup for one member; the member's own error where the version has one."""
    member = {"member_id": who.member_id, "group_instance_id": who.instance}
    answer = connection.ask(LEAVE_GROUP, version, {"group_id": who.group, "member_id": who.member_id, "members": [member]})
    code: ErrorCode = answer.error_code
    if code == ErrorCode.none and version >= 3:
        code = answer.members[0].error_code
    return code


def enter(connection: Connection, group: str, *, instance: str | None = None, **fields: Any) -> Identity:
    """The only member of a group, joined and synced, its assignment b"all"."""
    joined = join(connection, group, instance=instance, **fields)
    assert joined.error_code == ErrorCode.none, joined
    assert joined.leader == joined.member_id
    who = Identity(group, joined.member_id, joined.generation_id, instance)
    synced = connection.ask(SYNC_GROUP, 5, sync_fields(who, {who.member_id: b"all"}, protocol=joined.protocol_name))
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"all")
    return who


def commit(
    connection: Connection,
    who: Identity,
    offsets: Mapping[tuple[str, int], int],
    *,
    version: int = 9,
    metadata: str | None = "",
    ids: Mapping[str, UUID] | None = None,
) -> dict[tuple[str, int], ErrorCode]:
    """OffsetCommit; from version 10 on topics are named by `ids`. Returns the error of each partition."""
    topics: dict[str, list[dict[str, object]]] = {}
    for (topic, partition), offset in offsets.items():
        entry: dict[str, object] = {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": metadata,
        }
        topics.setdefault(topic, []).append(entry)
    fields = {
        "group_id": who.group,
        "generation_id_or_member_epoch": who.generation,
        "member_id": who.member_id,
        "group_instance_id": who.instance,
        "topics": [{"name": topic, "topic_id": (ids or {}).get(topic), "partitions": entries} for topic, entries in topics.items()],
    }
    answer = connection.ask(OFFSET_COMMIT, version, fields)
    names = {identity: name for name, identity in (ids or {}).items()}
    return {
        (topic.name if version < 10 else names.get(topic.topic_id, ""), partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
    }


def commit_alone(connection: Connection, group: str, topic: str, offset: int, *, partition: int = 0, metadata: str | None = "") -> None:
    """Commit for a group without members, as a consumer does that assigns its own partitions."""
    done = commit(connection, Identity(group, "", -1), {(topic, partition): offset}, metadata=metadata)
    assert done == {(topic, partition): ErrorCode.none}


def fetch_committed(
    connection: Connection,
    group: str,
    wanted: Mapping[str, list[int]] | None,
    *,
    version: int = 9,
    ids: Mapping[str, UUID] | None = None,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> tuple[ErrorCode, dict[tuple[str, int], Committed]]:
    """OffsetFetch for one group at any version; `wanted` None means every partition there is (from version 2)."""
    topics = None
    if wanted is not None:
        topics = [{"name": name, "topic_id": (ids or {}).get(name), "partition_indexes": numbers} for name, numbers in wanted.items()]
    group_fields = {"group_id": group, "topics": topics, "member_id": member_id, "member_epoch": member_epoch}
    answer = connection.ask(OFFSET_FETCH, version, group_fields if version < 8 else {"groups": [group_fields]})
    part = answer if version < 8 else answer.groups[0]
    names = {identity: name for name, identity in (ids or {}).items()}
    found = {
        (topic.name if version < 10 else names.get(topic.topic_id, ""), partition.partition_index): Committed(
            partition.committed_offset, partition.metadata, partition.error_code
        )
        for topic in part.topics
        for partition in topic.partitions
    }
    return part.error_code if version >= 2 else ErrorCode.none, found


def committed_offset(connection: Connection, group: str, topic: str, *, partition: int = 0) -> int:
    """The committed offset of one partition, -1 where there is none."""
    error, found = fetch_committed(connection, group, {topic: [partition]})
    assert error == ErrorCode.none
    assert found[topic, partition].error_code == ErrorCode.none
    return found[topic, partition].offset


def describe(connection: Connection, group: str, *, version: int = 6) -> Any:
    """DescribeGroups for one group."""
    (answer,) = connection.ask(DESCRIBE_GROUPS, version, {"groups": [group]}).groups
    assert answer.group_id == group
    return answer


def delete(connection: Connection, *groups: str, version: int = 2) -> dict[str, ErrorCode]:
    """DeleteGroups."""
    answer = connection.ask(DELETE_GROUPS, version, {"groups_names": list(groups)})
    return {result.group_id: result.error_code for result in answer.results}


@contextmanager
def connections(broker: Broker, count: int) -> Iterator[list[Connection]]:
    """So many connections: a request that waits for other members keeps its connection busy."""
    opened = [broker.connect() for _ in range(count)]
    try:
        yield opened
    finally:
        for connection in opened:
            connection.close()


def form_group(opened: list[Connection], group: str, **fields: Any) -> tuple[list[Identity], list[Any]]:
    """One member per connection, joined in one generation; identities and JoinGroup answers, the leader first.

    The others send first and the first sends last, because an answer comes only when everybody is there.
    """
    first = enter(opened[0], group, **fields)
    for connection in opened[1:]:
        send_join(connection, group, **fields)
    wait_until(lambda: heartbeat(opened[0], first) == ErrorCode.rebalance_in_progress, "the leader hears of the others")
    answers = [join(opened[0], group, first.member_id, **fields)]
    answers += [connection.receive(JOIN_GROUP, 9)[1] for connection in opened[1:]]
    assert [answer.error_code for answer in answers] == [ErrorCode.none] * len(opened)
    return [Identity(group, answer.member_id, answer.generation_id) for answer in answers], answers
