"""Random requests of both protocols to one group, right and wrong ones, and timers that come late.

Whatever is asked: nothing but answers comes back, everybody is answered exactly once, and after every single step a broker that starts
with the log knows the group that this one has.
"""

import random

import pytest

from millstream.groups.classic.group import ClassicGroup
from millstream.groups.commands import (
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    GroupCommand,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    PartitionOffset,
    Protocol,
    SyncGroup,
    TopicOffsets,
)
from millstream.groups.consumer.group import ConsumerGroup
from millstream.groups.shard import GroupCoordinatorShard
from tests.machines.consumer_group_script import snapshot
from tests.machines.migration_script import MigrationScript, assignment, subscription

STEPS = 200
PROTOCOLS = ("range", "roundrobin", "own")
UNREADABLE = (b"", b"\xff\xff", b"\x00\x01", b"\x00\x00\x7f\xff\xff\xff")
ASSIGNMENTS = (assignment(("t", 0)), assignment(("t", 1), ("t", 2)), assignment(), b"", b"\x00\x01x")
LARGE_STEPS_MS = (1, 1_000, 11_000, 31_000, 46_000)


def remembered(coordinator: GroupCoordinatorShard) -> object:
    """What the log has to know of the group: of a classic one that is between two generations only that it is classic."""
    group = coordinator._groups.get("g")
    if isinstance(group, ConsumerGroup):
        return snapshot(group)
    if not isinstance(group, ClassicGroup) or group.state != "Stable":
        return "classic or nothing"
    members = sorted((member.member_id, member.instance_id or "", member.assignment) for member in group.roster)
    return group.generation.generation_id, group.generation.protocol_name, group.roster.leader, members


class Requests:
    """Draws requests that make sense most of the time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        policy = self.random.choice(["bidirectional"] * 4 + ["upgrade", "downgrade", "disabled"])
        limits: dict[str, int] = self.random.choice([{}, {"consumer_max_group_size": 3}, {"max_group_size": 2}])
        self.script = MigrationScript(policy=policy, topics={"t": 5, "u": 2}, **limits)

    def members(self) -> list[tuple[str, int, str | None]]:
        """Those of now: id, generation or epoch, instance id."""
        group = self.script.coordinator._groups.get("g")
        if isinstance(group, ConsumerGroup):
            return [(one.member_id, one.current.member_epoch, one.metadata.instance_id) for one in group._state.members.values()]
        if isinstance(group, ClassicGroup):
            return [(one.member_id, group.generation.generation_id, one.instance_id) for one in group.roster]
        return []

    def step(self) -> None:
        """A request, or something that happens to the broker."""
        choice, script = self.random.random(), self.script
        if choice < 0.06:
            script.move(self.random.choice(LARGE_STEPS_MS))
        elif choice < 0.12:
            script.now_ms += self.random.choice(LARGE_STEPS_MS)  # and no timer has fired yet
        elif choice < 0.14:
            script.restart()
        elif choice < 0.17:
            script.change_topics({"t": self.random.choice([5, 6]), "tt": 1, **self.random.choice([{}, {"u": 2}])})
        else:
            script.ask(self.command())

    def command(self) -> GroupCommand:
        instance = self.random.choice([None, None, "i0", "i1"])
        strangers = [(self.random.choice(["a", "b", ""]), self.random.choice([-1, 1, 2]), instance)]
        member_id, epoch, own = self.random.choice(self.members() * 4 + strangers)
        draw = [self.join, self.join, self.sync, self.beat, self.beat, self.beat_old, self.commit, self.leave]
        return self.random.choice(draw)(member_id, epoch, self.random.choice([own, own, instance]))

    def join(self, member_id: str, _: int, instance: str | None) -> GroupCommand:
        return JoinGroup(
            group_id="g",
            member_id=self.random.choice(["", member_id]),
            client_id="c",
            client_host="/h",
            protocol_type=self.random.choice(["consumer"] * 12 + ["connect", ""]),
            protocols=tuple(Protocol(name, self.subscription()) for name in self.random.sample(PROTOCOLS, self.random.randint(1, 3))),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=self.random.choice([30_000, 30_000, 0, -1]),
            requires_known_member_id=self.random.random() < 0.3,
            instance_id=instance,
        )

    def subscription(self) -> bytes:
        if self.random.random() < 0.08:
            return self.random.choice(UNREADABLE)
        owned = {("t", self.random.randrange(6)) for _ in range(self.random.randrange(3))}
        topics: tuple[str, ...] = self.random.choice([("t",), ("t", "u"), ("gone",), (), ("t", "t")])
        return subscription(*topics, owned=owned, version=self.random.choice([0, 1]))

    def sync(self, member_id: str, generation_id: int, instance: str | None) -> GroupCommand:
        given = tuple(MemberAssignment(name, self.random.choice(ASSIGNMENTS)) for name, _, _ in self.members())
        return SyncGroup(group_id="g", member_id=member_id, generation_id=generation_id, assignments=given, instance_id=instance)

    def beat_old(self, member_id: str, generation_id: int, instance: str | None) -> GroupCommand:
        return Heartbeat(group_id="g", member_id=member_id, generation_id=generation_id, instance_id=instance)

    def beat(self, member_id: str, epoch: int, instance: str | None) -> GroupCommand:
        epoch = self.random.choice([0, 0, epoch, epoch, epoch, -1, -2])
        names: tuple[str, ...] | None = self.random.choice([("t",), ("t", "u"), ()]) if epoch == 0 else None
        return ConsumerHeartbeat(
            group_id="g",
            member_id=self.random.choice([member_id, "z"]) or "z",
            member_epoch=epoch,
            client_id="c",
            client_host="/h",
            instance_id=instance,
            rebalance_timeout_ms=self.random.choice([60_000, 0]) if epoch == 0 else -1,
            topic_partitions=() if epoch == 0 or self.random.random() < 0.4 else None,
            subscribed_topic_names=names,
            subscribed_topic_regex=self.random.choice(["t.*", "u", "", "["]) if self.random.random() < 0.2 else None,
        )

    def commit(self, member_id: str, epoch: int, instance: str | None) -> GroupCommand:
        if self.random.random() < 0.2:
            return DeleteGroup(group_id="g")
        topics = [TopicOffsets("t", None, [PartitionOffset(0, 7)])]
        return CommitOffsets(group_id="g", member_id=member_id, generation_or_member_epoch=epoch, instance_id=instance, topics=topics)

    def leave(self, member_id: str, _: int, instance: str | None) -> GroupCommand:
        others = [LeavingMember(name, own) for name, _, own in self.members() if self.random.random() < 0.3]
        return LeaveGroup(group_id="g", members=(LeavingMember(member_id, instance), *others))


@pytest.mark.parametrize("seed", range(40))
def test_every_request_is_answered_once_and_every_step_is_in_the_log(seed: int) -> None:
    requests = Requests(seed)
    script = requests.script
    replayed, read = GroupCoordinatorShard(script.settings), 0
    for _ in range(STEPS):
        requests.step()
        for record in script.log[read:]:
            replayed.apply(record)
        read = len(script.log)
        known = remembered(script.coordinator)
        if known == "classic or nothing":
            assert not isinstance(replayed._groups.get("g"), ConsumerGroup)
        else:
            assert remembered(replayed) == known
    for _ in range(20):
        script.move(60_000)
    assert script.answers.keys() == set(range(1, script.asked + 1))
