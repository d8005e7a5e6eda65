from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.cluster.leader import Leader
from millstream.cluster.partition import Partition
from millstream.cluster.watermark import Watermark
from millstream.coordination.partition_state import PartitionState
from millstream.errors import (
    KafkaError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PolicyViolation,
    StorageError,
)
from millstream.log.directories.manager import LogManager
from tests.batches import encode_batch
from tests.manual_clock import ManualClock
from tests.unit.cluster.hosting import LED_BY_1, NOW_MS, RecordingWatcher, append, flush, host, local_broker, started_logs

THREE = PartitionState(replicas=(1, 2, 3), leader=1, leader_epoch=3, in_sync_replicas=(1, 2, 3), partition_epoch=5)
LIFE = 70


def fetched(partition: Partition, replica: int, offset: int, *, life: int = LIFE, log_start: int = 0) -> None:
    partition.as_leader().replica_fetched(replica, life, offset, log_start)


def outcome_of(watermark: Watermark, value: int) -> list[KafkaError | None]:
    outcome: list[KafkaError | None] = []
    watermark.wait_for(value, outcome.append, token=object())
    return outcome


def test_a_partition_that_cannot_be_written_to_is_offered_to_others(logs: LogManager, monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[Partition] = []
    partition = host(logs, state=THREE, broker=local_broker(cannot_write=offered.append))
    batch = encode_batch([b"refused"], timestamp=NOW_MS)
    with monkeypatch.context() as few:
        few.setattr(partition.log.segments.active.files, "first_spare", 0)
        with pytest.raises(StorageError, match="Too many open files"):
            append(partition, b"refused")
        (refused,) = partition.as_leader().append_run([batch], acks=-1, now_ms=NOW_MS)
        assert isinstance(refused, StorageError)
    assert offered == [partition] * 2
    assert partition.log.directory.offline is None
    append(partition, b"there is room again")
    # A disk that failed is another matter: it takes all that is on it away.
    partition.log.directory.fail("writing", OSError(5, "input/output error"))
    with pytest.raises(StorageError):
        append(partition, b"refused")
    assert offered == [partition] * 2


def test_high_watermark_is_what_all_in_sync_replicas_have(logs: LogManager) -> None:
    partition = host(logs, state=THREE)
    append(partition, b"a", b"b")
    outcome = outcome_of(partition.high_watermark, 2)
    fetched(partition, 2, 2)
    assert partition.high_watermark.value == 0
    fetched(partition, 3, 1)
    assert (partition.high_watermark.value, outcome) == (1, [])
    fetched(partition, 3, 2)
    assert (partition.high_watermark.value, outcome) == (2, [None])


def test_appends_wake_followers_that_wait_for_the_log_end(logs: LogManager) -> None:
    partition = host(logs, state=THREE)
    follower, consumer = RecordingWatcher(), RecordingWatcher()
    partition.watchers.add(follower, is_replica=True)
    partition.watchers.add(consumer, is_replica=False)
    append(partition, b"a")
    assert (follower.calls, consumer.calls) == (["moved"], [])
    assert partition.high_watermark.value == 0


def test_commits_wake_consumers_and_give_followers_something_to_say(logs: LogManager) -> None:
    partition = host(logs, state=THREE)
    append(partition, b"a")
    follower, consumer = RecordingWatcher(), RecordingWatcher()
    partition.watchers.add(follower, is_replica=True)
    partition.watchers.add(consumer, is_replica=False)
    fetched(partition, 2, 1)
    assert (follower.calls, consumer.calls) == ([], [])
    fetched(partition, 3, 1)
    assert (follower.calls, consumer.calls) == (["marked"], ["moved"])
    partition.as_leader().delete_records_before(1)
    partition.as_leader().refused()
    assert (follower.calls, consumer.calls) == (["marked"] * 3, ["moved"])
    assert len(partition.watchers) == 1


def test_follower_reads_to_the_log_end_and_a_consumer_to_the_high_watermark(logs: LogManager) -> None:
    partition = host(logs, state=THREE)
    append(partition, b"a")
    leader = partition.as_leader()
    assert (leader.visible_end(0), leader.visible_end(0, is_replica=True)) == (0, 1)
    assert leader.read(0, end=leader.visible_end(0), max_bytes=100, min_one_batch=True) is None
    assert leader.read(1, end=leader.visible_end(0), max_bytes=100, min_one_batch=True) is None, "as in Kafka it waits"
    with pytest.raises(OffsetOutOfRange):
        leader.read(2, end=1, max_bytes=100, min_one_batch=True)


def test_fetches_of_a_former_life_and_of_others_say_nothing(logs: LogManager) -> None:
    partition = host(logs, state=THREE._replace(in_sync_replicas=(1, 2)))
    append(partition, b"a")
    fetched(partition, 2, 0, life=71)
    for replica in (1, 2, 9):
        with pytest.raises(NotLeaderOrFollower):
            fetched(partition, replica, 1, life=70)
    assert partition.high_watermark.value == 0
    fetched(partition, 2, 1, life=71)
    assert partition.high_watermark.value == 1


def test_the_high_watermark_waits_for_the_own_disk_where_a_flush_is_due(logs: LogManager) -> None:
    partition = host(logs, state=THREE, flush_messages=1)
    append(partition, b"a")
    fetched(partition, 2, 1)
    fetched(partition, 3, 1)
    assert partition.high_watermark.value == 0
    flush(partition)
    assert partition.high_watermark.value == 1


def test_in_sync_set_that_shrinks_lets_the_high_watermark_move(logs: LogManager) -> None:
    partition = host(logs, state=THREE)
    append(partition, b"a")
    fetched(partition, 2, 1)
    partition.apply(THREE._replace(in_sync_replicas=(1, 2), partition_epoch=6))
    assert partition.high_watermark.value == 1
    assert partition.as_leader().leader_epoch == 3


def test_state_that_is_older_than_what_the_controller_answered_changes_nothing(logs: LogManager) -> None:
    partition = host(logs, state=THREE)
    answered = THREE._replace(in_sync_replicas=(1, 2), partition_epoch=7)
    partition.as_leader().decided(answered)
    partition.apply(THREE._replace(partition_epoch=6))
    assert partition.state == partition.as_leader().replica_set.state == answered


def test_acks_all_is_refused_below_the_minimum_and_waits_for_it_afterwards(logs: LogManager) -> None:
    partition = host(logs, state=THREE._replace(in_sync_replicas=(1, 2)), min_insync_replicas=2)
    append(partition, b"a")
    outcome = outcome_of(partition.high_watermark, 1)
    partition.apply(THREE._replace(in_sync_replicas=(1,), partition_epoch=6))
    assert (partition.high_watermark.value, outcome) == (0, []), "what the last one has alone is not committed"
    with pytest.raises(NotEnoughReplicas):
        append(partition, b"b")
    with pytest.raises(NotEnoughReplicasAfterAppend):
        partition.as_leader().check_still_enough()
    assert append(partition, b"b", acks=1).base_offset == 1
    partition.apply(THREE._replace(in_sync_replicas=(1, 3), partition_epoch=7))
    fetched(partition, 3, 2)
    assert (partition.high_watermark.value, outcome) == (2, [None])


def test_minimum_is_at_most_the_number_of_replicas_as_in_kafka(logs: LogManager) -> None:
    partition = host(logs, min_insync_replicas=2)
    assert append(partition, b"a").base_offset == 0
    assert partition.high_watermark.value == 1


@pytest.mark.parametrize("acks", [0, 1])
def test_without_the_lease_nothing_is_taken_that_no_follower_confirms(logs: LogManager, acks: int) -> None:
    broker = local_broker(has_lease=lambda: False)
    partition = host(logs, state=THREE, broker=broker)
    with pytest.raises(NotLeaderOrFollower):
        append(partition, b"a", acks=acks)
    assert append(partition, b"a", acks=-1).base_offset == 0
    alone = host(logs, topic="alone", broker=broker)
    assert append(alone, b"a", acks=acks).base_offset == 0


def test_only_a_partition_without_followers_commits_at_once(logs: LogManager) -> None:
    assert host(logs).as_leader().commits_at_once(1)
    assert not host(logs, topic="one in sync", state=THREE._replace(in_sync_replicas=(1,))).as_leader().commits_at_once(1)
    assert not host(logs, topic="flushed", flush_messages=1).as_leader().commits_at_once(1)


def test_high_watermark_begins_where_it_was_and_never_beyond_the_log(logs: LogManager) -> None:
    partition = host(logs, state=THREE)
    append(partition, b"a", b"b", b"c")
    log = partition.log
    for known, begins in ((2, 2), (9, 3), (0, 0)):
        again = Partition("orders", 0, log, broker=local_broker(), state=THREE, high_watermark=known)
        again.apply(THREE._replace(leader_epoch=4))
        assert again.high_watermark.value == begins
    log.delete_records_before(1)
    assert Partition("orders", 0, log, broker=local_broker(), state=THREE, high_watermark=0).high_watermark.value == 1


def test_new_leader_does_not_know_what_is_committed_before_its_epoch_is_reached(logs: LogManager) -> None:
    partition = host(logs, state=THREE)
    append(partition, b"a", b"b")
    partition.apply(THREE._replace(leader=2, leader_epoch=4, partition_epoch=6))
    partition.apply(THREE._replace(leader_epoch=5, partition_epoch=7))
    leader = partition.as_leader()
    assert not leader.is_committed_so_far
    fetched(partition, 2, 2)
    fetched(partition, 3, 2)
    assert leader.is_committed_so_far


def test_controller_is_asked_for_a_follower_that_caught_up_and_is_not_in_sync(logs: LogManager) -> None:
    wanted: list[Partition] = []
    partition = host(logs, state=THREE._replace(in_sync_replicas=(1, 2)), broker=local_broker(in_sync_change_wanted=wanted.append))
    append(partition, b"a")
    fetched(partition, 2, 1)
    fetched(partition, 3, 0)
    assert wanted == []
    fetched(partition, 3, 1)
    assert wanted == [partition]
    leader = partition.as_leader()
    leader.replica_set.asked({1, 2, 3})
    fetched(partition, 3, 1)
    assert wanted == [partition], "it has been asked already"


def test_records_are_gone_when_all_replicas_that_are_there_have_deleted_them(logs: LogManager) -> None:
    partition = host(logs, state=THREE._replace(replicas=(1, 2, 3, 4)))
    append(partition, b"a", b"b")
    for replica in (2, 3):
        fetched(partition, replica, 2)
    leader = partition.as_leader()
    assert leader.delete_records_before(2) == 2
    outcome = outcome_of(leader.low_watermark, 2)
    fetched(partition, 2, 2, log_start=2)
    assert outcome == []
    fetched(partition, 3, 2, log_start=1)
    assert leader.low_watermark.value == 1
    fetched(partition, 3, 2, log_start=2)
    assert (outcome, leader.low_watermark.value) == ([None], 2)


def test_losing_the_lead_fails_all_who_wait_and_leading_again_in_another_epoch_only_readers(logs: LogManager) -> None:
    partition = host(logs, state=THREE)
    append(partition, b"a")
    committed, readers = outcome_of(partition.high_watermark, 1), (RecordingWatcher(), RecordingWatcher())
    for state in (THREE._replace(leader_epoch=4, partition_epoch=6), THREE._replace(leader=2, leader_epoch=5, partition_epoch=7)):
        assert committed == []
        for reader in readers:
            partition.watchers.add(reader, is_replica=reader is readers[0])
        partition.apply(state)
    assert [type(error) for error in committed] == [NotLeaderOrFollower]
    assert [reader.calls for reader in readers] == [["moved"] * 2] * 2


Step = tuple[str, int]
steps = st.lists(st.tuples(st.sampled_from(["append", "fetch2", "fetch3", "shrink", "grow", "wait"]), st.integers(0, 4)), max_size=30)


@given(steps, st.integers(1, 3))
@settings(max_examples=60)
def test_high_watermark_only_grows_and_is_in_all_logs_that_may_lead(
    tmp_path_factory: pytest.TempPathFactory, taken: list[Step], minimum: int
) -> None:
    logs, clock = started_logs(tmp_path_factory.mktemp("logs")), ManualClock()
    partition = host(logs, state=THREE, broker=local_broker(clock=clock), min_insync_replicas=minimum)
    ends = {2: 0, 3: 0}
    in_sync: tuple[int, ...] = (1, 2, 3)
    leader: Leader = partition.as_leader()
    decide: dict[str, Callable[[int], tuple[int, ...]]] = {
        "shrink": lambda _: in_sync[:-1] or (1,),
        # The controller takes in only who has everything that is committed.
        "grow": lambda _: (1, *(replica for replica, end in ends.items() if end >= partition.high_watermark.value)),
    }
    for number, (step, amount) in enumerate(taken):
        before = partition.high_watermark.value
        if step == "append":
            append(partition, *[b"v"] * (amount + 1), acks=1)
        elif step == "wait":
            clock.advance(amount * 20_000)
        elif step.startswith("fetch"):
            replica = int(step[-1])
            ends[replica] = min(ends[replica] + amount, partition.log.log_end_offset)
            fetched(partition, replica, ends[replica])
        else:
            in_sync = decide[step](amount)
            partition.apply(THREE._replace(in_sync_replicas=in_sync, partition_epoch=10 + number))
        now = partition.high_watermark.value
        assert before <= now <= partition.log.log_end_offset
        if now > before:
            assert all(ends[replica] >= now for replica in in_sync if replica != 1)
            assert len(in_sync) >= minimum
    assert partition.as_leader() is leader
    logs.close()


def test_a_partition_with_one_replica_has_the_same_leader_without_followers(logs: LogManager) -> None:
    leader = host(logs, state=LED_BY_1).as_leader()
    assert not leader.replica_set.has_followers
    assert leader.replica_set.low_watermark(4, is_counted=lambda _replica: True) == 4


def mirror(partition: Partition, *batches: bytes, expected_end: int, source: str = "live/1/orders", is_last: bool = False) -> int:
    leader = partition.as_leader()
    return leader.append_mirrored(b"".join(batches), source=source, expected_end=expected_end, now_ms=NOW_MS, is_last=is_last)


def test_a_mirror_appends_where_it_expects_the_end_and_is_committed_as_any_batch(logs: LogManager) -> None:
    partition = host(logs, state=THREE, mirror_source="live/1/orders", min_insync_replicas=2)
    batches = [encode_batch([b"a"], base_offset=10, producer_id=4, producer_epoch=0, base_sequence=0), encode_batch([b"b"], base_offset=20)]
    assert mirror(partition, *batches, expected_end=0) == 4
    outcome = outcome_of(partition.high_watermark, 21)
    with pytest.raises(OffsetOutOfRange, match="ends at 21, the mirror expected 11"):
        mirror(partition, batches[1], expected_end=11)
    fetched(partition, 2, 21)
    fetched(partition, 3, 21)
    assert (partition.log.log_start_offset, outcome, partition.log.epochs.entries) == (10, [None], [(3, 0)])
    partition.as_leader().decided(THREE._replace(in_sync_replicas=(1,), partition_epoch=6))
    with pytest.raises(NotEnoughReplicas):
        mirror(partition, encode_batch([b"c"], base_offset=21), expected_end=21)


def test_a_mirror_of_another_source_is_refused(logs: LogManager) -> None:
    partition = host(logs, mirror_source="live/1/orders")
    with pytest.raises(PolicyViolation, match="no mirror of 'other/1/orders'"):
        mirror(partition, encode_batch([b"a"]), expected_end=0, source="other/1/orders")
    assert partition.log.log_end_offset == 0


def test_the_end_of_a_mirroring_aborts_what_is_open_and_names_the_highest_producer(logs: LogManager) -> None:
    partition = host(logs, mirror_source="live/1/orders")
    for number, producer_id in enumerate((90, 7)):
        batch = encode_batch([b"a"], base_offset=number, producer_id=producer_id, producer_epoch=0, base_sequence=0, attributes=16)
        mirror(partition, batch, expected_end=number)
    assert mirror(partition, expected_end=2, is_last=True) == 90
    assert (partition.log.log_end_offset, partition.high_watermark.value) == (5, 5), "two abort markers, and the end of the producers"
    assert list(partition.log.producers) == []
