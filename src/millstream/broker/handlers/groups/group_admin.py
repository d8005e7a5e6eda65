"""DescribeGroups (15), ListGroups (16), DeleteGroups (42), ConsumerGroupDescribe (69): what people and tools ask about groups.

DescribeGroups 0-6. 3: authorized operations (KIP-430). 4: static members (KIP-345). 5: flexible. 6: a group that does not exist is an error
with a message (KIP-1043); before, it is a dead group. ListGroups 0-5. 3: flexible. 4: filter by state (KIP-518). 5: filter by type
(KIP-848). DeleteGroups 0-2. 2: flexible. ConsumerGroupDescribe 0-1 (KIP-848). 1: type of the members.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from millstream.broker.coordinators.group_coordinator import GroupCoordinator
from millstream.broker.coordinators.reply import CoordinatorReply, GatheredReply, Refusal, refuse_nothing
from millstream.broker.network.api import Fields, Request, api
from millstream.broker.network.outbox import Chunk
from millstream.errors import CoordinatorLoadInProgress, GroupIdNotFound, InvalidGroupId, NotCoordinator
from millstream.groups.commands import DeleteGroup
from millstream.groups.shard import GroupCoordinatorShard
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.consumer_group_describe import ConsumerGroupDescribeRequest
    from millstream.wire.requests.delete_groups import DeleteGroupsRequest
    from millstream.wire.requests.describe_groups import DescribeGroupsRequest
    from millstream.wire.requests.list_groups import ListGroupsRequest

_FIRST_WITH_NOT_FOUND = 6
_ALL_OPERATIONS = sum(1 << code for code in (3, 6, 8, 10, 11))
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS: without ACLs every client may do all that can be done to a group."""

_MOST_REPEATED = 10
"""A group that is named twice is described twice, as in Kafka; but a small request that repeats itself is not to get a huge answer."""


class GroupAdminFamily:
    """Shows groups, and deletes them."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    @api(ApiKey.DESCRIBE_GROUPS, 0, 6)
    def describe_groups(self, request: Request) -> Sequence[Chunk] | None:
        """The members of classic groups and what they were assigned."""
        message: DescribeGroupsRequest = request.decode()
        has_not_found = request.api_version >= _FIRST_WITH_NOT_FOUND

        def ask(shard: GroupCoordinatorShard, group_id: str) -> Fields:
            fields = shard.describe(group_id)
            if fields["error_code"] == GroupIdNotFound.code and not has_not_found:
                return {**fields, "error_code": 0}
            return fields

        return self._describe(request, message, message.groups, ask=ask, refuse=_refuse_description)

    @api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1)
    def consumer_group_describe(self, request: Request) -> Sequence[Chunk] | None:
        """The members of KIP-848 groups, what they have and what they are to have."""
        message: ConsumerGroupDescribeRequest = request.decode()

        def ask(shard: GroupCoordinatorShard, group_id: str) -> Fields:
            if not group_id:
                return _refuse_consumer_description(group_id)(InvalidGroupId("a group without a name cannot be described"))
            return shard.describe_consumer(group_id)

        return self._describe(request, message, message.group_ids, ask=ask, refuse=_refuse_consumer_description)

    def _describe(
        self,
        request: Request,
        message: "DescribeGroupsRequest | ConsumerGroupDescribeRequest",
        group_ids: tuple[str, ...],
        *,
        ask: Callable[[GroupCoordinatorShard, str], Fields],
        refuse: Callable[[str], Refusal],
    ) -> Sequence[Chunk] | None:
        if len(group_ids) > _MOST_REPEATED:
            group_ids = tuple(dict.fromkeys(group_ids))
        operations = {"authorized_operations": _ALL_OPERATIONS} if message.include_authorized_operations else {}

        def describe(group_id: str, shard: GroupCoordinatorShard) -> Fields:
            fields = ask(shard, group_id)
            return fields if fields["error_code"] else {**fields, **operations}

        reply = CoordinatorReply(request, refuse_nothing)
        gathered = GatheredReply(reply, len(group_ids), lambda groups: {"groups": groups})
        for number, group_id in enumerate(group_ids):
            self._groups.runtime.read(group_id, partial(describe, group_id), gathered.part(number, refuse(group_id)))
        return reply.result()

    @api(ApiKey.LIST_GROUPS, 0, 5)
    def list_groups(self, request: Request) -> Fields:
        """The groups of this broker."""
        message: ListGroupsRequest = request.decode()
        states, types = message.states_filter, message.types_filter
        groups: list[Fields] = []
        for context in self._groups.runtime:
            context.write_batch()
            try:
                groups += context.shard.list_groups(states, types)
            except CoordinatorLoadInProgress as error:
                return {"error_code": error.code, "groups": []}
            except NotCoordinator:
                continue
        return {"error_code": 0, "groups": groups}

    @api(ApiKey.DELETE_GROUPS, 0, 2)
    def delete_groups(self, request: Request) -> Sequence[Chunk] | None:
        """Delete groups that have no members, and their positions."""
        message: DeleteGroupsRequest = request.decode()
        group_ids = tuple(dict.fromkeys(message.groups_names))
        reply = CoordinatorReply(request, refuse_nothing)
        gathered = GatheredReply(reply, len(group_ids), lambda results: {"results": results})
        for number, group_id in enumerate(group_ids):
            self._groups.handle(DeleteGroup(group_id=group_id), gathered.part(number, _refuse_deletion(group_id)))
        return reply.result()


def _refuse_description(group_id: str) -> Refusal:
    return lambda error: {
        "group_id": group_id,
        "error_code": error.code,
        "error_message": str(error),
        "group_state": "",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
    }


def _refuse_consumer_description(group_id: str) -> Refusal:
    return lambda error: {
        "group_id": group_id,
        "error_code": error.code,
        "error_message": str(error),
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
    }


def _refuse_deletion(group_id: str) -> Refusal:
    return lambda error: {"group_id": group_id, "error_code": error.code}
