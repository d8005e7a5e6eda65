"""The target of a KIP-848 group: who should have what, once everybody has got there."""

from collections import Counter

from millstream.groups.consumer.assignors import ASSIGNORS, Candidate
from millstream.groups.consumer.group_state import ConsumerGroupState
from millstream.groups.consumer.records import Assignment
from millstream.groups.consumer.subscriptions import ConsumerSubscriptions


def compute_target(state: ConsumerGroupState, subscriptions: ConsumerSubscriptions, *, assignor: str) -> dict[str, Assignment]:
    """A new target for every member, close to the present one where the assignor cares."""
    candidates = {
        member_id: Candidate(member.metadata.instance_id, subscriptions.topic_ids(member.metadata), state.target.get(member_id, ()))
        for member_id, member in state.members.items()
    }
    return ASSIGNORS[assignor](candidates, subscriptions.partition_counts())


def chosen_assignor(state: ConsumerGroupState, available: tuple[str, ...]) -> str:
    """The assignor that most members ask for, of those that there are; the first if nobody cares."""
    votes = Counter(member.metadata.server_assignor for member in state.members.values())
    return max(available, key=lambda name: votes[name])
