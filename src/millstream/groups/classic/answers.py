"""The answers to JoinGroup and SyncGroup, for all versions at once: what a version does not have is left out when it is written."""

from millstream.coordinator_shard import Fields

NO_GENERATION = -1


def join_error(error_code: int, *, member_id: str = "") -> Fields:
    """A JoinGroup that failed."""
    return {
        "error_code": error_code,
        "generation_id": NO_GENERATION,
        "protocol_type": None,
        "protocol_name": None,
        "leader": "",
        "skip_assignment": False,
        "member_id": member_id,
        "members": [],
    }


def sync_answer(error_code: int, *, protocol_type: str | None = None, protocol_name: str | None = None, assignment: bytes = b"") -> Fields:
    """A SyncGroup that failed, or the assignment."""
    return {"error_code": error_code, "protocol_type": protocol_type, "protocol_name": protocol_name, "assignment": assignment}
