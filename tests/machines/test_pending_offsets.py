"""Offsets in transactions: what is shown while they are pending, what counts in the end, who may commit them."""

from uuid import UUID

import pytest

from millstream.errors import (
    FencedInstanceId,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    OffsetMetadataTooLarge,
    UnknownMemberId,
    UnstableOffsetCommit,
)
from millstream.groups.commands import CommitOffsets, ConsumerHeartbeat, PartitionOffset, TopicOffsets
from millstream.groups.offsets.repeated_commit import RepeatedCommit
from millstream.groups.topic_image import TopicImage, TopicInfo
from tests.machines.group_script import DELAY_MS, GROUP, SETTINGS
from tests.machines.pending_offsets_script import PendingOffsetsScript

A, B = 1000, 2000
UNSTABLE = (-1, UnstableOffsetCommit.code)
NOTHING = (-1, 0)
FIRST, SECOND = UUID(int=1), UUID(int=2)
RETENTION_MS = SETTINGS.offsets_retention_ms
CHECK_MS = SETTINGS.offsets_retention_check_interval_ms


def both(script: PendingOffsetsScript) -> tuple[PendingOffsetsScript, PendingOffsetsScript]:
    """What holds now has to hold after a restart."""
    return script, script.restarted()


@pytest.mark.parametrize("is_commit", [True, False])
def test_offset_in_a_transaction_counts_when_that_is_committed(is_commit: bool) -> None:
    script = PendingOffsetsScript()
    script.commit(3)
    assert script.commit_pending(A, 7) == 0
    for one in both(script):
        assert one.fetched(0) == [UNSTABLE]
        assert one.fetched(0, is_stable_required=False) == [(3, 0)]
    script.end(A, is_commit=is_commit)
    for one in both(script):
        assert one.fetched(0) == [(7 if is_commit else 3, 0)]


def test_only_the_partitions_of_the_transaction_are_unstable() -> None:
    script = PendingOffsetsScript()
    script.commit(1)
    script.commit(2, partition=1)
    script.commit_pending(A, 9, partition=1)
    script.commit_pending(A, 9, partition=2)
    for one in both(script):
        assert one.fetched(0, 1, 2, 3) == [(1, 0), UNSTABLE, UNSTABLE, NOTHING]
        shown = one.coordinator.fetch_offsets(GROUP, None, is_stable_required=True)["topics"]
        partitions = {entry["partition_index"]: entry["error_code"] for entry in shown[0]["partitions"]}  # type: ignore[index]
        assert partitions == {0: 0, 1: UnstableOffsetCommit.code}, "what is only pending is not among all that there are"


def test_partition_is_stable_when_the_last_transaction_on_it_has_ended() -> None:
    script = PendingOffsetsScript()
    script.commit_pending(A, 5)
    script.commit_pending(B, 6)
    script.end(A, is_commit=True)
    for one in both(script):
        assert one.fetched(0) == [UNSTABLE]
        assert one.fetched(0, is_stable_required=False) == [(5, 0)]
    script.end(B, is_commit=False)
    for one in both(script):
        assert one.fetched(0) == [(5, 0)]


def test_last_commit_of_a_transaction_counts() -> None:
    script = PendingOffsetsScript()
    script.commit_pending(A, 5)
    script.commit_pending(A, 4)
    script.end(A, is_commit=True)
    for one in both(script):
        assert one.fetched(0) == [(4, 0)]


def test_record_that_stands_later_in_the_log_wins_whichever_transaction_ends_first() -> None:
    """Compaction keeps the later record alone: what is made real must not depend on whether it has run."""
    script = PendingOffsetsScript()
    script.commit_pending(A, 5)
    script.commit_pending(B, 6)
    script.end(B, is_commit=True)
    script.end(A, is_commit=True)
    for one in both(script):
        assert one.fetched(0) == [(6, 0)]


def test_plain_commit_after_a_pending_one_wins_and_leaves_the_partition_unstable() -> None:
    script = PendingOffsetsScript()
    script.commit_pending(A, 5)
    script.commit(3)
    for one in both(script):
        assert one.fetched(0) == [UNSTABLE]
    script.end(A, is_commit=True)
    for one in both(script):
        assert one.fetched(0) == [(3, 0)]


def test_commit_of_the_fast_lane_wins_as_any_other() -> None:
    script = PendingOffsetsScript()
    topics = [TopicOffsets("topic", None, [PartitionOffset(0, 1)])]
    command = CommitOffsets(group_id=GROUP, member_id="", generation_or_member_epoch=-1, topics=topics)
    script.answer(command)
    script.commit_pending(A, 5)
    assert script.coordinator.commit_again(RepeatedCommit(command), (3,), (-1,), now_ms=script.now_ms) is not None
    script.end(A, is_commit=True)
    assert script.fetched(0) == [(3, 0)]


def test_commit_in_the_same_transaction_after_a_plain_one_wins() -> None:
    script = PendingOffsetsScript()
    script.commit_pending(A, 5)
    script.commit(3)
    script.commit_pending(A, 8)
    script.end(A, is_commit=True)
    for one in both(script):
        assert one.fetched(0) == [(8, 0)]


def test_marker_of_a_producer_without_offsets_changes_nothing() -> None:
    script = PendingOffsetsScript()
    script.commit_pending(A, 5)
    script.end(B, is_commit=True)
    assert script.fetched(0) == [UNSTABLE]
    script.end(A, is_commit=True)
    script.end(A, is_commit=False)
    for one in both(script):
        assert one.fetched(0) == [(5, 0)]


# --- deletion, expiry, topics


def test_deleting_an_offset_drops_what_is_pending_there() -> None:
    script = PendingOffsetsScript()
    script.commit(1, partition=1)
    script.commit_pending(A, 5)
    script.commit_pending(A, 6, partition=1)
    script.commit_pending(A, 7, partition=2)
    script.delete_offset(partition=0)
    script.delete_offset(partition=1)
    for one in both(script):
        assert one.fetched(0, 1, 2) == [NOTHING, NOTHING, UNSTABLE]
    script.end(A, is_commit=True)
    for one in both(script):
        assert one.fetched(0, 1, 2) == [NOTHING, NOTHING, (7, 0)]


def test_deleting_a_group_drops_what_is_pending_in_it() -> None:
    script = PendingOffsetsScript()
    script.commit(1)
    script.commit_pending(A, 5)
    script.commit_pending(A, 6, partition=1)
    assert script.delete_group() == 0
    script.end(A, is_commit=True)
    for one in both(script):
        assert one.fetched(0, 1) == [NOTHING, NOTHING]
        assert one.coordinator.list_groups() == []


def test_group_that_has_only_pending_offsets_exists() -> None:
    script = PendingOffsetsScript()
    script.commit_pending(A, 5)
    for one in both(script):
        (listed,) = one.coordinator.list_groups()
        assert listed == {"group_id": GROUP, "protocol_type": "", "group_state": "Empty", "group_type": "classic"}


def test_neither_offset_nor_group_expires_under_an_open_transaction() -> None:
    script = PendingOffsetsScript()
    script.commit(1)
    script.commit(1, partition=1)
    script.commit_pending(A, 5)
    script.move(RETENTION_MS + CHECK_MS)
    for one in both(script):
        assert one.fetched(0, 1, is_stable_required=False) == [(1, 0), NOTHING]
    script.end(A, is_commit=False)
    script.move(CHECK_MS)
    for one in both(script):
        assert one.coordinator.list_groups() == []


def test_group_without_any_offset_left_outlives_its_open_transaction() -> None:
    script = PendingOffsetsScript()
    script.commit_pending(A, 5)
    script.move(RETENTION_MS + CHECK_MS)
    script.end(A, is_commit=True)
    for one in both(script):
        assert one.fetched(0) == [(5, 0)]


def test_pending_offsets_of_a_deleted_topic_are_gone() -> None:
    script = PendingOffsetsScript()
    script.take(script.coordinator.topics_changed(TopicImage({"topic": TopicInfo(FIRST, 2)}), script.now_ms))
    script.commit_pending(A, 5, topics=[TopicOffsets("topic", FIRST, [PartitionOffset(0, 5), PartitionOffset(1, 6)])])
    script.take(script.coordinator.topics_changed(TopicImage(), script.now_ms, changed=["topic"]))
    script.end(A, is_commit=True)
    for one in both(script):
        assert one.fetched(0, 1) == [NOTHING, NOTHING]


def test_pending_offset_of_a_topic_that_was_made_again_while_nothing_was_loaded_is_gone() -> None:
    script = PendingOffsetsScript()
    script.commit_pending(A, 5, topics=[TopicOffsets("topic", FIRST, [PartitionOffset(0, 5)])])
    again = script.restarted()
    again.take(again.coordinator.topics_changed(TopicImage({"topic": TopicInfo(SECOND, 1)}), again.now_ms))
    again.end(A, is_commit=True)
    for one in both(again):
        assert one.fetched(0) == [NOTHING]


# --- who may commit


def test_commit_that_is_refused_leaves_nothing() -> None:
    script = PendingOffsetsScript()
    long = [TopicOffsets("topic", None, [PartitionOffset(0, 1, -1, "x" * (SETTINGS.offset_metadata_max_bytes + 1))])]
    assert script.commit_pending(A, 0, topics=long) == OffsetMetadataTooLarge.code
    many = [TopicOffsets("topic", None, [PartitionOffset(index, 1, -1, "x" * 4000) for index in range(2000)])]
    assert script.commit_pending(A, 0, topics=many) == InvalidCommitOffsetSize.code
    assert script.commit_pending(A, 5, "member", 3) == IllegalGeneration.code
    assert script.entries == []
    assert script.coordinator.list_groups() == []


def test_member_commits_in_its_generation_only() -> None:
    script = PendingOffsetsScript()
    member, _ = script.stable_group(2)
    assert script.commit_pending(A, 5, member, 1) == 0
    assert script.commit_pending(A, 5, member, 2) == IllegalGeneration.code
    assert script.commit_pending(A, 5, member, -1) == IllegalGeneration.code
    assert script.commit_pending(A, 5, "stranger", 1) == UnknownMemberId.code
    assert script.commit_pending(A, 5, member, 1, instance_id="stranger") == UnknownMemberId.code


def test_static_member_that_was_replaced_is_fenced() -> None:
    script = PendingOffsetsScript()
    member, other = script.stable_group(2, instance_ids=True)
    assert script.commit_pending(A, 5, member, 1, instance_id="instance-0") == 0
    assert script.commit_pending(A, 5, other, 1, instance_id="instance-0") == FencedInstanceId.code


def test_producer_that_does_not_say_who_it_is_commits_whatever_members_there_are() -> None:
    """Versions before 3 cannot say it."""
    script = PendingOffsetsScript()
    script.stable_group(1)
    assert script.commit_pending(A, 5) == 0


def test_empty_group_takes_a_commit_of_any_member_without_a_generation() -> None:
    script = PendingOffsetsScript()
    (member,) = script.stable_group(1)
    script.leave((member, None))
    assert script.commit_pending(A, 5, member, -1) == 0
    assert script.commit_pending(A, 5, member, 1) == UnknownMemberId.code


def test_commit_is_taken_while_the_generation_is_being_made() -> None:
    script = PendingOffsetsScript()
    waiter = script.join()
    script.move(DELAY_MS)
    assert script.state == "CompletingRebalance"
    assert script.commit_pending(A, 5, str(script.joined(waiter)["member_id"]), 1) == 0


def test_commit_in_a_transaction_is_no_sign_of_life() -> None:
    script = PendingOffsetsScript()
    (member,) = script.stable_group(1)
    for _ in range(4):
        script.commit_pending(A, 5, member, 1)
        script.move(4_000)
    assert script.commit_pending(A, 5, member, 1) == UnknownMemberId.code


def test_member_of_a_consumer_group_commits_with_its_epoch_only() -> None:
    script = PendingOffsetsScript()
    beat = ConsumerHeartbeat(
        GROUP, "member", 0, "client", "/host", rebalance_timeout_ms=1000, subscribed_topic_names=(), topic_partitions=()
    )
    epoch = script.answer(beat)["member_epoch"]
    assert isinstance(epoch, int)
    assert epoch > 0
    assert script.commit_pending(A, 5, "member", epoch) == 0
    assert script.commit_pending(A, 5, "member", epoch - 1) == IllegalGeneration.code
    assert script.commit_pending(A, 5, "member", epoch + 1) == IllegalGeneration.code
    assert script.commit_pending(A, 5, "member", -1) == IllegalGeneration.code
    assert script.commit_pending(A, 5, "stranger", epoch) == UnknownMemberId.code
    assert script.commit_pending(A, 5) == 0, "who does not say which member it is"
    script.end(A, is_commit=True)
    for one in both(script):
        assert one.fetched(0) == [(5, 0)]
