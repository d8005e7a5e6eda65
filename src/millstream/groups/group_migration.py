"""Groups with members that change their kind: from the classic protocol to KIP-848 and back, as `group.consumer.migration.policy` allows.

Upgrade: the first KIP-848 member joins a classic group of consumers. All members stay, each with what the leader gave it last, and the
classic ones go on with their own protocol (`consumer.classic_members`). Downgrade: the last KIP-848 member has gone, and the classic ones
that are left get the target of the group as the assignment of a classic generation, and rebalance.

Generation and group epoch are one number, so that no member's generation ever goes back. What cannot be migrated is left as it is: a group
of other things than consumers, one whose members cannot be read here, one with an assignor that gives members more than partitions, one
that is too large. Pure: values in, values out.
"""

from collections.abc import Sequence
from typing import Final

from millstream.errors import GroupIdNotFound, MalformedFrame
from millstream.groups.classic.generation import PREPARING_REBALANCE
from millstream.groups.classic.group import ClassicGroup
from millstream.groups.classic.member import NO_ASSIGNMENT, ClassicMember
from millstream.groups.commands import Protocol
from millstream.groups.consumer.assignors import canonical
from millstream.groups.consumer.group_state import ConsumerGroupState
from millstream.groups.consumer.member import ConsumerMember, MigratedMember
from millstream.groups.consumer.records import Assignment, ClassicProtocols, MemberMetadata, encode_consumer_value
from millstream.groups.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    by_id,
    by_name,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)
from millstream.groups.settings import GroupSettings
from millstream.groups.topic_image import TopicImage

_TOO_LARGE: Final = "the subscription of a member is too large"


def upgraded_members(group: ClassicGroup, image: TopicImage, *, settings: GroupSettings) -> list[MigratedMember]:
    """The members of a classic group, for the KIP-848 group that it becomes; GroupIdNotFound, in Kafka's words, if it cannot."""
    if not settings.allows_upgrade:
        raise _not_upgraded(group, "online upgrade is disabled")
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _not_upgraded(group, "the group does not use the consumer embedded protocol")
    if len(group.roster) > settings.consumer_max_group_size:
        raise _not_upgraded(group, "the group size exceeds the consumer group maximum size")
    if any(sum(len(one.metadata) for one in member.protocols) > settings.max_batch_bytes for member in group.roster):
        raise _not_upgraded(group, _TOO_LARGE)  # and takes long to read
    try:
        protocol_name = _agreed_protocol(group)
        members = [_upgraded(group, member, member.metadata(protocol_name), image) for member in group.roster]
    except MalformedFrame:
        raise _not_upgraded(group, "the embedded consumer protocol is malformed") from None
    if any(len(encode_consumer_value(member.metadata)) > settings.max_batch_bytes for member in members):
        raise _not_upgraded(group, _TOO_LARGE)
    return _with_what_is_not_given_up(members)


def _not_upgraded(group: ClassicGroup, reason: str) -> GroupIdNotFound:
    return GroupIdNotFound(f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}.")


def _agreed_protocol(group: ClassicGroup) -> str:
    """What the members would agree on now: those of a generation to come may not have the protocol of the last one."""
    if group.generation.protocol_name is not None and group.state != PREPARING_REBALANCE:
        return group.generation.protocol_name
    return group.roster.choose_protocol() if len(group.roster) else ""


def _upgraded(group: ClassicGroup, member: ClassicMember, subscribed: bytes, image: TopicImage) -> MigratedMember:
    assigned: Assignment = ()
    if member.assignment != NO_ASSIGNMENT:  # as long as it has never synced
        assignment = decode_assignment(member.assignment)
        if assignment.user_data:
            hint = "Please refer to the documentation or switch to a default assignor before re-attempting the upgrade"
            raise _not_upgraded(group, f"an unsupported custom assignor is in use. {hint}")
        assigned = by_id(assignment.partitions, image)
    subscription = decode_subscription(subscribed)
    metadata = MemberMetadata(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic=ClassicProtocols(member.session_timeout_ms, tuple((one.name, one.metadata) for one in member.protocols)),
    )
    return MigratedMember(member.member_id, metadata, assigned, by_id(subscription.owned, image))


def _with_what_is_not_given_up(members: Sequence[MigratedMember]) -> list[MigratedMember]:
    """The members with what they still read, given what each said to have when it joined.

    The leader of a cooperative group takes partitions away from a member, which gives them up when it hears of it and then joins again;
    only the next generation has another owner for them. Kafka forgets who reads them meanwhile.
    """
    taken = {(topic_id, number) for member in members for topic_id, numbers in member.assigned for number in numbers}
    found = []
    for member in members:
        held = {topic_id: set(numbers) for topic_id, numbers in member.assigned}
        for topic_id, numbers in member.held:
            kept = [number for number in numbers if (topic_id, number) not in taken]
            taken.update((topic_id, number) for number in kept)
            held.setdefault(topic_id, set()).update(kept)
        found.append(member._replace(held=canonical(held)))
    return found


def downgraded(
    state: ConsumerGroupState, members: Sequence[ConsumerMember], *, image: TopicImage, settings: GroupSettings, now_ms: int
) -> ClassicGroup | None:
    """The classic group of these members, who all speak the classic protocol; None if they cannot be one."""
    classic = [_downgraded(member) for member in members]
    common = set.intersection(*({protocol.name for protocol in member.protocols} for member in classic))
    if len(classic) > settings.max_group_size or not common:
        return None
    group = ClassicGroup(state.group_id, settings)
    try:
        group.adopt(classic, generation_id=state.epoch, now_ms=now_ms)
        for member in group.roster:
            assert group.generation.protocol_name is not None
            version = version_of(member.metadata(group.generation.protocol_name))
            member.assignment = encode_assignment(by_name(state.target.get(member.member_id, ()), image), version=version)
    except MalformedFrame:  # written by another program
        return None
    return None if group.is_too_large() else group


def _downgraded(member: ConsumerMember) -> ClassicMember:
    metadata = member.metadata
    assert metadata.classic is not None
    classic = ClassicMember(
        member.member_id,
        metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        protocols=tuple(Protocol(*protocol) for protocol in metadata.classic.protocols),
    )
    classic.session_timeout_ms = metadata.classic.session_timeout_ms
    classic.rebalance_timeout_ms = metadata.rebalance_timeout_ms
    return classic
