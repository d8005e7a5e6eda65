"""One group id, two protocols: an empty group is turned into the other kind and keeps its offsets. With members: `test_group_migration`."""

from typing import cast

from millstream.coordinator_shard import CoordinatorRecord, Fields
from millstream.groups.commands import (
    CommitOffsets,
    ConsumerHeartbeat,
    GroupCommand,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    PartitionOffset,
    Protocol,
    TopicOffsets,
)
from millstream.groups.settings import GroupSettings
from millstream.groups.shard import GroupCoordinatorShard
from millstream.groups.topic_image import TopicImage, TopicInfo
from tests.machines.consumer_group_script import topic_id

UNKNOWN_SERVER_ERROR = -1
GROUP_ID_NOT_FOUND = 69


class Shard:
    """A coordinator, a clock and a log."""

    def __init__(self) -> None:
        self.log: list[CoordinatorRecord] = []
        self.now_ms = 1_000
        self.image = TopicImage({"t": TopicInfo(topic_id("t"), 2)})
        self.coordinator = self._empty()
        self.coordinator.topics_changed(self.image, self.now_ms)
        self.coordinator.loaded(self.now_ms)

    def _empty(self) -> GroupCoordinatorShard:
        settings = GroupSettings(initial_rebalance_delay_ms=0)
        return GroupCoordinatorShard(settings)

    def ask(self, command: GroupCommand) -> Fields:
        outcome = self.coordinator.handle(command, "w", now_ms=self.now_ms)
        self.log += outcome.records
        while not outcome.replies:
            self.now_ms += 1
            outcome = self.coordinator.tick(self.now_ms)
            self.log += outcome.records
        return outcome.replies[0][1]

    def restart(self) -> None:
        self.coordinator = self._empty()
        for record in self.log:
            self.coordinator.apply(record)
        self.log += self.coordinator.topics_changed(self.image, self.now_ms).records
        self.log += self.coordinator.loaded(self.now_ms).records

    def kinds(self) -> list[tuple[object, object]]:
        return [(group["group_type"], group["group_state"]) for group in self.coordinator.list_groups()]

    def offset(self) -> object:
        topics = cast("list[dict[str, list[Fields]]]", self.coordinator.fetch_offsets("g", [("t", None, [0])])["topics"])
        return topics[0]["partitions"][0]["committed_offset"]


def consumer(epoch: int = 0) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )


def classic(member_id: str = "") -> JoinGroup:
    return JoinGroup(
        group_id="g",
        member_id=member_id,
        client_id="c",
        client_host="/h",
        protocol_type="consumer",
        protocols=(Protocol("range", b""),),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        requires_known_member_id=False,
    )


def commit(member_id: str, epoch: int) -> CommitOffsets:
    topics = [TopicOffsets("t", None, [PartitionOffset(0, 7)])]
    return CommitOffsets(group_id="g", member_id=member_id, generation_or_member_epoch=epoch, topics=topics)


def leave_of(member_id: str) -> LeaveGroup:
    return LeaveGroup(group_id="g", members=(LeavingMember(member_id),))


def test_group_whose_members_do_not_say_what_consumers_say_refuses_the_other_protocol() -> None:
    shard = Shard()
    shard.ask(consumer())
    assert shard.ask(classic())["error_code"] == UNKNOWN_SERVER_ERROR
    shard = Shard()
    shard.ask(classic())
    assert shard.ask(consumer())["error_code"] == GROUP_ID_NOT_FOUND
    assert [kind for kind, _ in shard.kinds()] == ["classic"]


def test_heartbeat_to_a_group_that_does_not_exist_is_refused() -> None:
    assert Shard().ask(consumer(epoch=3))["error_code"] == GROUP_ID_NOT_FOUND
    assert Shard().ask(consumer(epoch=-1))["error_code"] == GROUP_ID_NOT_FOUND


def test_empty_consumer_group_becomes_classic_and_keeps_its_offsets() -> None:
    shard = Shard()
    shard.ask(consumer())
    shard.ask(commit("m", 1))
    shard.ask(consumer(epoch=-1))
    assert shard.kinds() == [("consumer", "Empty")]
    assert shard.ask(classic())["error_code"] == 0
    for _ in range(2):
        assert [kind for kind, _ in shard.kinds()] == ["classic"]
        assert shard.offset() == 7
        shard.restart()


def test_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    shard = Shard()
    shard.ask(commit("", -1))
    member_id = str(shard.ask(classic())["member_id"])
    shard.ask(leave_of(member_id))
    assert shard.ask(consumer())["error_code"] == 0
    for _ in range(2):
        assert shard.kinds() == [("consumer", "Stable")]
        assert shard.offset() == 7
        shard.restart()


def test_group_goes_there_and_back_again() -> None:
    shard = Shard()
    for _ in range(2):
        assert shard.ask(consumer())["error_code"] == 0
        shard.ask(consumer(epoch=-1))
        shard.restart()
        member_id = str(shard.ask(classic())["member_id"])
        shard.ask(leave_of(member_id))
        shard.restart()
    assert shard.kinds() == [("classic", "Empty")]


def test_refused_heartbeat_leaves_a_classic_group_as_it_was() -> None:
    shard = Shard()
    shard.ask(commit("", -1))
    written = len(shard.log)
    assert shard.ask(ConsumerHeartbeat(group_id="g", member_id="m", member_epoch=0, client_id="c", client_host="/h"))["error_code"] == 42
    assert (shard.kinds(), len(shard.log)) == ([("classic", "Empty")], written)
