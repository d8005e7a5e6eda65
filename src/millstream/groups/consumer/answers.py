"""The answers to ConsumerGroupHeartbeat, by which members of a KIP-848 group join, stay and leave."""

from millstream.errors import KafkaError
from millstream.groups.outcome import Fields


def consumer_heartbeat_answer(member_id: str, member_epoch: int, *, heartbeat_interval_ms: int = 0) -> Fields:
    """A heartbeat that was taken; without an assignment, which stays as it was."""
    return {
        "error_code": 0,
        "error_message": None,
        "member_id": member_id,
        "member_epoch": member_epoch,
        "heartbeat_interval_ms": heartbeat_interval_ms,
        "assignment": None,
    }


def consumer_heartbeat_error(error: KafkaError) -> Fields:
    """A heartbeat that was refused."""
    return {
        "error_code": error.code,
        "error_message": str(error),
        "member_id": None,
        "member_epoch": 0,
        "heartbeat_interval_ms": 0,
        "assignment": None,
    }
