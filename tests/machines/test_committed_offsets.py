"""Committed offsets: who may commit, what is remembered, when it goes."""

from dataclasses import replace
from uuid import UUID

import pytest

from millstream.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    UnknownMemberId,
)
from millstream.groups.commands import CommitOffsets, PartitionOffset, Protocol, TopicOffsets
from millstream.groups.offsets.records import CommittedOffset, OffsetKey
from millstream.groups.shard import GroupCoordinatorShard
from millstream.groups.topic_image import TopicImage, TopicInfo
from tests.machines.group_script import DELAY_MS, GROUP, SESSION_MS, SETTINGS, START_MS, Script, subscription

FIRST, SECOND = UUID(int=1), UUID(int=2)
DAY_MS = 24 * 3_600_000
RETENTION_MS = SETTINGS.offsets_retention_ms
CHECK_MS = SETTINGS.offsets_retention_check_interval_ms


def commit(*topics: TopicOffsets) -> CommitOffsets:
    return CommitOffsets(group_id=GROUP, member_id="", generation_or_member_epoch=-1, topics=list(topics))


def test_a_consumer_without_a_group_commits_into_a_simple_group() -> None:
    script = Script()
    assert script.commit(7) == 0
    assert script.committed() == 7
    assert script.last_record() == (OffsetKey(GROUP, "topic", 0), CommittedOffset(7, -1, "", START_MS))
    (listed,) = script.coordinator.list_groups()
    assert listed == {"group_id": GROUP, "protocol_type": "", "group_state": "Empty", "group_type": "classic"}


def test_everything_of_a_commit_is_shown_and_survives_a_restart() -> None:
    script = Script()
    script.answer(commit(TopicOffsets("topic", FIRST, [PartitionOffset(3, 42, 5, "note ü"), PartitionOffset(1, 0)])))
    for one in (script, script.restarted()):
        shown = one.coordinator.fetch_offsets(GROUP, [("topic", FIRST, [1, 2, 3])])
        assert shown == {
            "group_id": GROUP,
            "error_code": 0,
            "topics": [
                {
                    "name": "topic",
                    "topic_id": FIRST,
                    "partitions": [
                        {"partition_index": 1, "committed_offset": 0, "committed_leader_epoch": -1, "metadata": "", "error_code": 0},
                        {"partition_index": 2, "committed_offset": -1, "committed_leader_epoch": -1, "metadata": "", "error_code": 0},
                        {"partition_index": 3, "committed_offset": 42, "committed_leader_epoch": 5, "metadata": "note ü", "error_code": 0},
                    ],
                }
            ],
        }


def test_all_offsets_of_a_group_are_shown_when_none_are_named() -> None:
    script = Script()
    script.coordinator.topics_changed(TopicImage({"topic": TopicInfo(FIRST, 1)}), script.now_ms)
    script.answer(commit(TopicOffsets("topic", FIRST, [PartitionOffset(0, 1)]), TopicOffsets("gone", None, [PartitionOffset(0, 2)])))
    topics = script.coordinator.fetch_offsets(GROUP, None)["topics"]
    assert [(topic["name"], topic["topic_id"]) for topic in topics] == [("topic", FIRST), ("gone", None)]  # type: ignore[attr-defined]
    assert script.coordinator.fetch_offsets("nothing", None) == {"group_id": "nothing", "error_code": 0, "topics": []}


def test_members_commit_in_their_generation_only() -> None:
    script = Script()
    (member_id,) = script.stable_group(1)
    assert script.commit(1, member_id, 1) == 0
    assert script.commit(2, member_id, 0) == IllegalGeneration.code
    assert script.commit(2, "nobody", 1) == UnknownMemberId.code
    assert script.commit(2, member_id, -1) == IllegalGeneration.code
    assert script.commit(2, "", -1) == UnknownMemberId.code
    assert script.committed() == 1


def test_members_commit_while_others_join_but_not_before_the_assignment() -> None:
    script = Script()
    leader, follower = script.stable_group(2)
    waiter = script.join(leader)
    assert script.commit(1, follower, 1) == 0
    script.join(follower)
    script.joined(waiter)
    assert script.commit(2, follower, 2) == RebalanceInProgress.code
    assert script.committed() == 1


def test_a_commit_is_a_sign_of_life() -> None:
    script = Script()
    (member_id,) = script.stable_group(1)
    script.move(SESSION_MS - 1)
    script.commit(1, member_id, 1)
    script.move(SESSION_MS - 1)
    assert script.heartbeat(member_id, 1) == 0


def test_a_member_of_no_group_cannot_commit() -> None:
    script = Script()
    assert script.commit(1, "member", 3) == GroupIdNotFound.code
    assert script.commit(1, "member", 3, understands_stale_epoch=False) == IllegalGeneration.code
    assert script.coordinator.list_groups() == []


def test_long_metadata_are_refused_partition_by_partition() -> None:
    script = Script()
    long = "x" * (SETTINGS.offset_metadata_max_bytes + 1)
    answer = script.answer(commit(TopicOffsets("topic", None, [PartitionOffset(0, 1, -1, long), PartitionOffset(1, 2, -1, long[1:])])))
    partitions = answer["topics"][0]["partitions"]  # type: ignore[index]
    assert [partition["error_code"] for partition in partitions] == [OffsetMetadataTooLarge.code, 0]
    assert (script.committed(0), script.committed(1)) == (-1, 2)


def test_a_commit_that_fits_into_no_batch_is_refused_whole() -> None:
    script = Script()
    partitions = [PartitionOffset(number, 1, -1, "x" * 4_000) for number in range(300)]
    answer = script.answer(commit(TopicOffsets("topic", None, partitions)))
    codes = {partition["error_code"] for partition in answer["topics"][0]["partitions"]}  # type: ignore[index]
    assert codes == {InvalidCommitOffsetSize.code}
    assert script.log == []
    assert script.coordinator.list_groups() == []


def test_an_offset_is_deleted_unless_a_member_reads_the_topic() -> None:
    script = Script()
    script.commit(1)
    (member_id,) = script.stable_group(1, protocols=(Protocol("range", subscription("other")),))
    assert script.delete_offset()["topics"] == [{"name": "topic", "partitions": [{"partition_index": 0, "error_code": 0}]}]
    assert script.committed() == script.restarted().committed() == -1
    script.commit(2, member_id, 1)
    refused = script.delete_offset("other")["topics"]
    assert refused == [{"name": "other", "partitions": [{"partition_index": 0, "error_code": GroupSubscribedToTopic.code}]}]


def test_deleting_an_offset_that_is_not_there_writes_nothing() -> None:
    script = Script()
    script.commit(1)
    written = len(script.log)
    assert script.delete_offset("topic", 9)["error_code"] == 0
    assert len(script.log) == written


def test_offsets_of_groups_that_do_something_else_are_deleted_only_when_they_are_empty() -> None:
    script = Script()
    assert script.delete_offset()["error_code"] == GroupIdNotFound.code
    script.join(protocol_type="connect")
    script.move(DELAY_MS)
    assert script.delete_offset()["error_code"] == NonEmptyGroup.code


def test_a_group_is_deleted_with_its_offsets_once_it_is_empty() -> None:
    script = Script()
    (member_id,) = script.stable_group(1)
    script.commit(5, member_id, 1)
    assert script.delete_group() == NonEmptyGroup.code
    script.leave((member_id, None))
    assert script.delete_group() == 0
    assert script.delete_group() == GroupIdNotFound.code
    for one in (script, script.restarted()):
        assert one.committed() == -1
        assert one.coordinator.list_groups() == []


def test_offsets_of_a_simple_group_expire_after_their_commit() -> None:
    script = Script()
    script.commit(1)
    script.move(RETENTION_MS - DAY_MS)
    script.commit(2, partition=1)
    script.move(DAY_MS + CHECK_MS)
    for one in (script, script.restarted()):
        assert (one.committed(0), one.committed(1)) == (-1, 2)
    script.move(RETENTION_MS)
    assert script.coordinator.list_groups() == script.restarted().coordinator.list_groups() == []


def test_offsets_of_a_group_expire_only_after_it_became_empty() -> None:
    script = Script()
    script.commit(1)
    script.move(RETENTION_MS - CHECK_MS)
    script.stable_group(1, protocols=(Protocol("range", b"not a subscription"),))
    script.move(SESSION_MS)
    assert script.state == "Empty"
    emptied_ms = script.now_ms
    script.move(RETENTION_MS - 1)
    assert script.committed() == script.restarted().committed() == 1
    script.move(emptied_ms + RETENTION_MS + CHECK_MS - script.now_ms)
    assert script.committed() == -1


def test_offsets_of_a_topic_that_is_read_do_not_expire_and_of_others_do() -> None:
    long = replace(SETTINGS, max_session_timeout_ms=2 * RETENTION_MS)
    script = Script(long)
    waiter = script.join(session_timeout_ms=2 * RETENTION_MS)
    script.move(DELAY_MS)
    member_id = str(script.joined(waiter)["member_id"])
    script.assign([member_id], 1)
    script.commit(1, member_id, 1)
    script.commit(2, member_id, 1, topics=[TopicOffsets("left", None, [PartitionOffset(0, 2)])])
    script.move(RETENTION_MS + CHECK_MS)
    assert script.committed() == 1
    assert script.committed(topic="left") == -1


def test_a_commit_may_ask_for_a_time_of_its_own() -> None:
    script = Script()
    script.commit(1, retention_ms=DAY_MS)
    assert script.restarted().committed() == 1
    script.move(DAY_MS + CHECK_MS)
    assert script.committed() == -1


def test_a_group_to_which_a_member_is_coming_back_is_not_forgotten() -> None:
    script = Script(replace(SETTINGS, max_session_timeout_ms=2 * CHECK_MS))
    member_id = str(script.answers[script.join(requires_known_member_id=True, session_timeout_ms=2 * CHECK_MS)]["member_id"])
    script.move(CHECK_MS)
    assert script.waits(script.join(member_id))


def test_many_groups_are_checked_in_turns() -> None:
    script = Script()
    for number in range(5_000):
        script.commit(1, group_id=f"group-{number}")
    script.now_ms += RETENTION_MS + CHECK_MS
    first = script.take(script.coordinator.tick(script.now_ms))
    assert 0 < len(first.records) < 5_000
    script.move(0)
    assert script.coordinator.list_groups() == []


@pytest.mark.parametrize("topics", [{}, {"topic": TopicInfo(SECOND, 1)}], ids=["deleted", "made anew"])
def test_offsets_of_a_deleted_topic_go(topics: dict[str, TopicInfo]) -> None:
    script = Script()
    other = TopicInfo(UUID(int=3), 1)
    script.take(script.coordinator.topics_changed(TopicImage({"topic": TopicInfo(FIRST, 1), "other": other}), script.now_ms))
    script.answer(commit(TopicOffsets("topic", FIRST, [PartitionOffset(0, 1)]), TopicOffsets("other", None, [PartitionOffset(0, 2)])))
    script.take(script.coordinator.topics_changed(TopicImage({**topics, "other": other}), script.now_ms))
    for one in (script, script.restarted()):
        assert (one.committed(), one.committed(topic="other")) == (-1, 2)


def test_a_topic_made_anew_while_the_coordinator_was_away_does_not_inherit_offsets() -> None:
    script = Script()
    script.answer(commit(TopicOffsets("topic", FIRST, [PartitionOffset(0, 1)]), TopicOffsets("old", None, [PartitionOffset(0, 2)])))
    again = script.restarted()
    shown = again.coordinator.fetch_offsets(GROUP, [("topic", SECOND, [0])])
    assert shown["topics"][0]["partitions"][0]["committed_offset"] == -1  # type: ignore[index]
    again.take(again.coordinator.topics_changed(TopicImage({"topic": TopicInfo(SECOND, 1), "old": TopicInfo(FIRST, 1)}), again.now_ms))
    assert (again.committed(), again.committed(topic="old")) == (-1, 2)


def test_topics_known_before_the_log_is_read_count_when_it_has_been_read() -> None:
    script = Script()
    script.answer(commit(TopicOffsets("topic", FIRST, [PartitionOffset(0, 1)])))
    coordinator = GroupCoordinatorShard(SETTINGS)
    assert coordinator.topics_changed(TopicImage({"topic": TopicInfo(SECOND, 1)}), START_MS).records == []
    for record in script.log:
        coordinator.apply(record)
    assert [record.value for record in coordinator.loaded(START_MS).records] == [None]
