"""Committing and fetching offsets without being a member, over raw requests."""

from typing import Any

from tests.connection import FIND_COORDINATOR, Connection

OFFSET_COMMIT, OFFSET_FETCH = 8, 9


def find(connection: Connection, *groups: str) -> Any:
    """Where the coordinators of groups are."""
    return connection.ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": list(groups)}).coordinators


def commit(connection: Connection, group: str, topic: str, offset: int) -> int:
    """Commit an offset of partition 0; the error code."""
    entry = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": 0, "committed_metadata": ""}
    fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": [{"name": topic, "partitions": [entry]}]}
    return int(connection.ask(OFFSET_COMMIT, 8, fields).topics[0].partitions[0].error_code)


def fetch(connection: Connection, group: str, topic: str) -> tuple[int, int]:
    """The error code, and the committed offset of partition 0."""
    asked = [{"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}]
    answer = connection.ask(OFFSET_FETCH, 8, {"groups": asked, "require_stable": False}).groups[0]
    return int(answer.error_code), answer.topics[0].partitions[0].committed_offset if answer.topics else -1


def fetch_stable(connection: Connection, group: str, topic: str) -> tuple[int, int]:
    """As `fetch`, if an offset in an open transaction is not to be overlooked (KIP-447)."""
    asked = [{"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}]
    answer = connection.ask(OFFSET_FETCH, 8, {"groups": asked, "require_stable": True}).groups[0]
    if not answer.topics:
        return int(answer.error_code), -1
    (partition,) = answer.topics[0].partitions
    return int(partition.error_code), partition.committed_offset
