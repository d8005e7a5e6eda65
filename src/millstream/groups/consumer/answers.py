"""The answers about a KIP-848 group: to ConsumerGroupHeartbeat, and to ConsumerGroupDescribe.

Version 0 of the latter has no `member_type`; the writer of the message drops it there. Partitions of topics that no longer exist are left
out, as Kafka does.
"""

from millstream.coordinator_shard import Fields
from millstream.errors import KafkaError
from millstream.groups.consumer.group_state import ConsumerGroupState
from millstream.groups.consumer.member import ConsumerMember
from millstream.groups.consumer.records import Assignment
from millstream.groups.topic_image import TopicImage

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


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


def described(state: ConsumerGroupState, image: TopicImage, *, state_name: str, assignor: str) -> Fields:
    """The fields of a described group, without its id and error."""
    return {
        "group_state": state_name,
        "group_epoch": state.epoch,
        "assignment_epoch": state.target_epoch,
        "assignor_name": assignor,
        "members": [_member(member, state.target.get(member.member_id, ()), image) for member in state.members.values()],
    }


def _member(member: ConsumerMember, target: Assignment, image: TopicImage) -> Fields:
    metadata = member.metadata
    return {
        "member_id": member.member_id,
        "instance_id": metadata.instance_id,
        "rack_id": metadata.rack_id,
        "member_epoch": member.current.member_epoch,
        "client_id": metadata.client_id,
        "client_host": metadata.client_host,
        "subscribed_topic_names": list(metadata.subscribed_topic_names),
        "subscribed_topic_regex": metadata.subscribed_topic_regex or "",
        "assignment": _partitions(member.current.assigned, image),
        "target_assignment": _partitions(target, image),
        "member_type": _CONSUMER_MEMBER if metadata.classic is None else _CLASSIC_MEMBER,
    }


def _partitions(assignment: Assignment, image: TopicImage) -> Fields:
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": image.names[topic_id], "partitions": list(numbers)}
            for topic_id, numbers in assignment
            if topic_id in image.names
        ]
    }
