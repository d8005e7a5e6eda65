from uuid import UUID

from millstream.coordinator_shard import CoordinatorRecord, Outcome
from millstream.groups.commands import PartitionOffset, TopicOffsets
from millstream.groups.offsets.store import OffsetStore


def store_with(*partitions: int) -> tuple[OffsetStore, list[CoordinatorRecord]]:
    store = OffsetStore()
    topics = [TopicOffsets("topic", UUID(int=1), [PartitionOffset(partition, partition) for partition in partitions])]
    _, records = store.commit("group", topics, now_ms=5, retention_ms=None, metadata_max=10, size_max=10_000)
    return store, records


def test_what_is_removed_last_takes_the_group_with_it() -> None:
    store, _ = store_with(0, 1)
    outcome = Outcome()
    store.remove("group", "topic", 0, outcome=outcome)
    store.remove("group", "topic", 0, outcome=outcome)
    assert "group" in store.group_ids()
    store.remove("group", "topic", 1, outcome=outcome)
    assert "group" not in store.group_ids()
    assert [record.value for record in outcome.records] == [None, None]


def test_the_tombstones_of_a_group_name_all_its_offsets() -> None:
    store, records = store_with(0, 1, 7)
    outcome = Outcome()
    store.remove_group("group", outcome=outcome)
    assert [record.key for record in outcome.records] == [record.key for record in records]


def test_a_commit_of_nothing_makes_nothing() -> None:
    store, records = store_with()
    assert records == []
    assert "group" not in store.group_ids()


def test_an_offset_of_another_topic_of_the_same_name_is_not_shown() -> None:
    store, _ = store_with(0)
    for topic_id, offset in ((UUID(int=1), 0), (None, 0), (UUID(int=2), -1)):
        shown = store.fetch("group", "topic", topic_id=topic_id, partitions=[0])
        assert shown["partitions"][0]["committed_offset"] == offset  # type: ignore[index]
