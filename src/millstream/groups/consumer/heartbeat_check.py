"""What is wrong with a ConsumerGroupHeartbeat by itself, before any group is looked at. The sentences are Kafka's own.

v0   the coordinator makes up the id of a member that joins without one
v1   the member makes up its own id (KIP-1082), and may subscribe with a regular expression

Kafka has no limits for names and subscriptions; here what would not fit into a record is refused before it is tried.
"""

from typing import Final

from millstream.errors import InvalidRequest, UnsupportedAssignor
from millstream.groups.commands import ConsumerHeartbeat
from millstream.groups.consumer.assignors import ASSIGNORS
from millstream.groups.consumer.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from millstream.groups.settings import GroupSettings

_MAX_NAME_BYTES: Final = 32_767
"""Keys of records have lengths of 16 bits."""


def check_consumer_heartbeat(command: ConsumerHeartbeat, settings: GroupSettings) -> None:
    """Raise InvalidRequest or UnsupportedAssignor if no group could take it."""
    _check_names(command)
    _check_sizes(command, settings.max_batch_bytes)
    if command.member_epoch == JOIN_EPOCH:
        _check_join(command)
    elif command.member_epoch == STATIC_LEAVE_EPOCH:
        if command.instance_id is None:
            raise InvalidRequest("InstanceId can't be null.")
    elif command.member_epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequest("MemberEpoch is invalid.")
    assignors = available_assignors(settings)
    if command.server_assignor is not None and command.server_assignor not in assignors:
        supported = ", ".join(assignors)
        raise UnsupportedAssignor(f"ServerAssignor {command.server_assignor} is not supported. Supported assignors: {supported}.")


def available_assignors(settings: GroupSettings) -> tuple[str, ...]:
    """The assignors that members may ask for; the first is the default."""
    return tuple(name for name in settings.consumer_assignors if name in ASSIGNORS) or tuple(ASSIGNORS)


def _check_names(command: ConsumerHeartbeat) -> None:
    if (command.requires_member_id or command.member_epoch != JOIN_EPOCH) and not command.member_id.strip():
        raise InvalidRequest("MemberId can't be empty.")
    if not command.group_id.strip():
        raise InvalidRequest("GroupId can't be empty.")
    if command.instance_id is not None and not command.instance_id.strip():
        raise InvalidRequest("InstanceId can't be empty.")
    if command.rack_id is not None and not command.rack_id.strip():
        raise InvalidRequest("RackId can't be empty.")


def _check_sizes(command: ConsumerHeartbeat, limit_bytes: int) -> None:
    names = (command.group_id, command.member_id, command.instance_id or "", command.rack_id or "", command.client_id)
    if any(len(name) > _MAX_NAME_BYTES or len(name.encode()) > _MAX_NAME_BYTES for name in names):
        raise InvalidRequest(f"A name is longer than {_MAX_NAME_BYTES} bytes.")
    subscribed = command.subscribed_topic_names
    # Five names of the longest kind, and every topic with its length.
    if subscribed is not None and 5 * _MAX_NAME_BYTES + sum(3 + len(name.encode()) for name in subscribed) > limit_bytes:
        raise InvalidRequest(f"A subscription to {len(subscribed)} topics is too large.")


def _check_join(command: ConsumerHeartbeat) -> None:
    if command.rebalance_timeout_ms == -1:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    if command.topic_partitions is None or command.topic_partitions:
        raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
    if command.subscribed_topic_names is None and command.subscribed_topic_regex is None:
        raise InvalidRequest("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
