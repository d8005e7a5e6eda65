"""A KIP-848 group as ConsumerGroupDescribe (69) shows it.

v0 has no `member_type`; the writer of the message drops it there. Partitions of topics that no longer exist are left out, as Kafka does.
"""

from millstream.groups.consumer.group_state import ConsumerGroupState
from millstream.groups.consumer.member import ConsumerMember
from millstream.groups.consumer.records import Assignment
from millstream.groups.outcome import Fields
from millstream.groups.topic_image import TopicImage

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


def describe(state: ConsumerGroupState, image: TopicImage, *, state_name: str, assignor: str) -> Fields:
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
