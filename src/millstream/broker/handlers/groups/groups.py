"""JoinGroup (11), SyncGroup (14), Heartbeat (12), LeaveGroup (13), ConsumerGroupHeartbeat (68): being a member of a group.

JoinGroup 0-9. 1: rebalance timeout of its own. 4: a new member gets an id first and joins again with it (KIP-394). 5: static members
(KIP-345). 6: flexible. 7: protocol type in the answer, no protocol name in a refusal (KIP-559). 8: a reason (KIP-800). 9: a leader may
be asked to skip the assignment (KIP-814).
SyncGroup 0-5. 3: static members. 4: flexible. 5: protocol type and name are compared. Heartbeat 0-4. 3: static members. 4: flexible.
LeaveGroup 0-5. 3: several members at once, with errors of their own (KIP-345). 4: flexible. 5: reasons.
ConsumerGroupHeartbeat 0-1 (KIP-848). 1: subscriptions by regular expression; member ids are made by the clients.

What an answer says is decided by the machines in `millstream.groups`; here requests become commands.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from millstream.broker.coordinators.group_coordinator import GroupCoordinator
from millstream.broker.network.api import Fields, Request, api
from millstream.broker.network.outbox import Chunk
from millstream.errors import CoordinatorLoadInProgress, InconsistentGroupProtocol, InvalidRequest, KafkaError
from millstream.groups.classic.answers import join_error, sync_answer
from millstream.groups.commands import (
    ConsumerHeartbeat,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    OwnedPartitions,
    Protocol,
    SyncGroup,
)
from millstream.groups.consumer.answers import consumer_heartbeat_error
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from millstream.wire.requests.heartbeat import HeartbeatRequest
    from millstream.wire.requests.join_group import JoinGroupRequest
    from millstream.wire.requests.leave_group import LeaveGroupRequest
    from millstream.wire.requests.sync_group import SyncGroupRequest

MAX_SUBSCRIPTION_BYTES = 1_000_000
"""Of one member, over all protocols that it offers; they are kept for as long as it is a member."""
_FIRST_WITH_MEMBER_ID_REQUIRED = 4
_FIRST_WITH_NO_PROTOCOL_NAME = 7
_FIRST_WITH_SKIPPED_ASSIGNMENT = 9
_FIRST_WITH_SEVERAL_LEAVING = 3
_FIRST_SYNC_WITH_PROTOCOL = 5
_FIRST_WITH_CLIENTS_OWN_MEMBER_ID = 1


class GroupsFamily:
    """Members come, stay and go."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    @api(ApiKey.JOIN_GROUP, 0, 9)
    def join_group(self, request: Request) -> Sequence[Chunk] | None:
        """Become a member; answered when the generation is complete."""
        message: JoinGroupRequest = request.decode()
        version = request.api_version
        member_id = message.member_id
        shape = _as_it_is if version >= _FIRST_WITH_NO_PROTOCOL_NAME else _with_a_protocol_name
        if sum(len(one.metadata) for one in message.protocols) > MAX_SUBSCRIPTION_BYTES:
            return (request.encode(shape(join_error(InvalidRequest.code, member_id=member_id))),)
        command = JoinGroup(
            group_id=message.group_id,
            member_id=member_id,
            client_id=request.client_id or "",
            client_host=client_host(request),
            protocol_type=message.protocol_type,
            protocols=cast("tuple[Protocol, ...]", message.protocols),  # as they were read: tuples with the names of `Protocol`
            session_timeout_ms=message.session_timeout_ms,
            rebalance_timeout_ms=message.rebalance_timeout_ms if version >= 1 else -1,
            instance_id=message.group_instance_id,
            reason=message.reason,
            requires_known_member_id=version >= _FIRST_WITH_MEMBER_ID_REQUIRED,
            supports_skipping_assignment=version >= _FIRST_WITH_SKIPPED_ASSIGNMENT,
        )
        return self._groups.submit(command, request, refuse=lambda error: join_error(error.code, member_id=member_id), shape=shape)

    @api(ApiKey.SYNC_GROUP, 0, 5)
    def sync_group(self, request: Request) -> Sequence[Chunk] | None:
        """Bring or get the assignment of a generation."""
        message: SyncGroupRequest = request.decode()
        if request.api_version >= _FIRST_SYNC_WITH_PROTOCOL and (message.protocol_type is None or message.protocol_name is None):
            return (request.encode(sync_answer(InconsistentGroupProtocol.code)),)
        command = SyncGroup(
            group_id=message.group_id,
            member_id=message.member_id,
            generation_id=message.generation_id,
            instance_id=message.group_instance_id,
            protocol_type=message.protocol_type,
            protocol_name=message.protocol_name,
            assignments=cast("tuple[MemberAssignment, ...]", message.assignments),  # tuples with the same names, too
        )
        return self._groups.submit(command, request, refuse=lambda error: sync_answer(error.code))

    @api(ApiKey.HEARTBEAT, 0, 4)
    def heartbeat(self, request: Request) -> Sequence[Chunk] | None:
        """A member lives; does it have to join again?"""
        message: HeartbeatRequest = request.decode()
        command = Heartbeat(
            group_id=message.group_id,
            member_id=message.member_id,
            generation_id=message.generation_id,
            instance_id=message.group_instance_id,
        )
        return self._groups.submit(command, request, refuse=_refuse_heartbeat)

    @api(ApiKey.LEAVE_GROUP, 0, 5)
    def leave_group(self, request: Request) -> Sequence[Chunk] | None:
        """Members go, and need not be waited for."""
        message: LeaveGroupRequest = request.decode()
        if request.api_version >= _FIRST_WITH_SEVERAL_LEAVING:
            members = tuple(LeavingMember(one.member_id, one.group_instance_id, one.reason) for one in message.members)
        else:
            members = (LeavingMember(message.member_id),)
        command = LeaveGroup(group_id=message.group_id, members=members)
        shape = None if request.api_version >= _FIRST_WITH_SEVERAL_LEAVING else _error_of_the_one_who_left
        return self._groups.submit(command, request, refuse=lambda error: {"error_code": error.code, "members": []}, shape=shape)

    @api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1)
    def consumer_group_heartbeat(self, request: Request) -> Sequence[Chunk] | None:
        """Join, stay in, or leave a KIP-848 group, and learn the assignment."""
        message: ConsumerGroupHeartbeatRequest = request.decode()
        owned = message.topic_partitions
        names = message.subscribed_topic_names
        command = ConsumerHeartbeat(
            group_id=message.group_id,
            member_id=message.member_id,
            member_epoch=message.member_epoch,
            client_id=request.client_id or "",
            client_host=client_host(request),
            instance_id=message.instance_id,
            rack_id=message.rack_id,
            rebalance_timeout_ms=message.rebalance_timeout_ms,
            subscribed_topic_names=names,
            subscribed_topic_regex=message.subscribed_topic_regex,
            server_assignor=message.server_assignor,
            topic_partitions=None if owned is None else cast("OwnedPartitions", tuple([one for one in owned if one.topic_id is not None])),
            requires_member_id=request.api_version >= _FIRST_WITH_CLIENTS_OWN_MEMBER_ID,
        )
        return self._groups.submit(command, request, refuse=consumer_heartbeat_error)


def client_host(request: Request) -> str:
    """Where a client comes from, as Kafka writes it."""
    return "/" + request.session.host


def _refuse_heartbeat(error: KafkaError) -> Fields:
    """While groups are loaded no session runs, so members may believe that all is well (Kafka answers the same)."""
    return {"error_code": 0 if isinstance(error, CoordinatorLoadInProgress) else error.code}


def _as_it_is(fields: Fields) -> Fields:
    return fields


def _with_a_protocol_name(fields: Fields) -> Fields:
    """Before version 7 there is no null: a join that failed has an empty name."""
    return {**fields, "protocol_name": fields["protocol_name"] or ""}


def _error_of_the_one_who_left(fields: Fields) -> Fields:
    """Versions before 3 have one member, and its error is the answer's."""
    members = cast("list[Fields]", fields["members"])
    return fields if fields["error_code"] or not members else {"error_code": members[0]["error_code"]}
