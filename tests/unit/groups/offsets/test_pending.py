from millstream.groups.offsets.pending import PendingOffsets
from millstream.groups.offsets.records import CommittedOffset, OffsetKey

HERE, THERE, ELSEWHERE = OffsetKey("group", "topic", 0), OffsetKey("group", "topic", 1), OffsetKey("other", "topic", 0)


def committed(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0)


def pending_at(*keys: OffsetKey) -> PendingOffsets:
    pending = PendingOffsets()
    for producer_id, key in enumerate(keys):
        pending.add(producer_id, key, committed(producer_id))
    return pending


def test_nothing_is_kept_of_a_transaction_that_ended() -> None:
    pending = pending_at(HERE, HERE, ELSEWHERE)
    assert [(key, one.committed) for key, one in pending.end(0)] == [(HERE, committed(0))]
    assert pending.end(0) == []
    assert pending.partitions("group", "topic").keys() == {0}
    pending.end(1)
    assert not pending.partitions("group", "topic")
    assert not pending.has_group("group")
    assert pending.has_group("other")
    pending.end(2)
    assert not pending.producers
    assert list(pending.group_ids()) == []


def test_tombstone_drops_what_every_producer_has_there_and_nothing_else() -> None:
    pending = pending_at(HERE, HERE, THERE)
    pending.drop(HERE)
    pending.drop(ELSEWHERE)
    assert pending.places("group") == [("topic", 1)]
    assert pending.end(0) == []
    assert [key for key, _ in pending.items()] == [THERE]


def test_only_what_stands_before_a_later_commit_is_outdated() -> None:
    pending = pending_at(HERE, HERE)
    pending.outdate(HERE, before=1)
    pending.outdate(THERE)
    assert [one.is_outdated for producer_id in (0, 1) for _, one in pending.end(producer_id)] == [True, False]


def test_partitions_of_one_topic_are_those_where_something_is_pending() -> None:
    pending = pending_at(HERE, THERE, ELSEWHERE)
    assert pending.partitions("group", "topic").keys() == {0, 1}
    assert not pending.partitions("group", "another")
    assert not pending.partitions("missing", "topic")
