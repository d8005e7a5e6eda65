from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.cluster.partition import Partition
from millstream.cluster.readable_replica import READ_COMMITTED
from millstream.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    StorageError,
    UnknownLeaderEpoch,
)
from millstream.log.config import LogConfig
from millstream.log.directories.manager import LogManager
from tests.unit.cluster.hosting import LED_BY_1, append, flush, host, local_broker, started_logs

LED_BY_2 = LED_BY_1._replace(leader=2, replicas=(1, 2), in_sync_replicas=(1, 2), leader_epoch=4)


def read(partition: Partition, offset: int, *, max_bytes: int = 1 << 20, min_one_batch: bool = True) -> int:
    leader = partition.as_leader()
    region = leader.read(offset, end=leader.visible_end(0), max_bytes=max_bytes, min_one_batch=min_one_batch)
    return 0 if region is None else region.length


def test_with_one_replica_the_high_watermark_follows_the_log(logs: LogManager) -> None:
    partition = host(logs)
    assert append(partition, b"a", b"b").last_offset == 1
    assert partition.high_watermark.value == partition.last_stable_offset == partition.log.log_end_offset == 2


def test_what_the_log_holds_back_is_held_back_from_readers_of_committed_transactions(
    logs: LogManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one last stable offset: compaction, Fetch and ListOffsets ask the same."""
    partition = host(logs)
    append(partition, b"a")
    append(partition, b"b")
    monkeypatch.setattr(type(partition.log), "last_stable_offset", lambda _log, high_watermark: high_watermark - 1)
    assert partition.last_stable_offset == 1
    assert partition.as_leader().visible_end(READ_COMMITTED) == 1
    assert read(partition, 1) > 0


def test_only_the_leader_appends(logs: LogManager) -> None:
    partition = host(logs, state=LED_BY_2)
    with pytest.raises(NotLeaderOrFollower):
        append(partition, b"a")
    assert partition.log.log_end_offset == 0


def test_acks_all_needs_enough_replicas_in_sync_and_acks_1_does_not(logs: LogManager) -> None:
    partition = host(logs, state=LED_BY_1._replace(replicas=(1, 2)), min_insync_replicas=2)
    with pytest.raises(NotEnoughReplicas):
        append(partition, b"a", acks=-1)
    assert append(partition, b"a", acks=1).base_offset == 0


def test_the_epoch_a_client_believes_in_is_checked(logs: LogManager) -> None:
    partition = host(logs)
    partition.as_leader()
    partition.as_leader(3)
    with pytest.raises(FencedLeaderEpoch):
        partition.as_leader(2)
    with pytest.raises(UnknownLeaderEpoch):
        partition.as_leader(4)


def test_a_flush_is_asked_for_when_it_is_due_and_nothing_is_committed_before(logs: LogManager) -> None:
    asked: list[Partition] = []
    partition = host(logs, broker=local_broker(request_flush=asked.append), flush_messages=1)
    append(partition, b"a")
    assert asked == [partition]
    assert partition.high_watermark.value == partition.durable.value == 0
    assert partition.as_leader().watermark_for(1) is partition.durable
    assert partition.as_leader().watermark_for(-1) is partition.high_watermark
    flush(partition)
    assert partition.high_watermark.value == partition.durable.value == 1
    assert partition.as_leader().watermark_for(1) is None


def test_consumers_see_nothing_that_is_not_committed(logs: LogManager) -> None:
    partition = host(logs, flush_messages=1)
    append(partition, b"a")
    assert read(partition, 0) == 0
    flush(partition)
    assert read(partition, 0) > 0


def test_below_the_count_of_flush_messages_no_request_waits(logs: LogManager) -> None:
    partition = host(logs, flush_messages=3)
    append(partition, b"a", b"b")
    assert partition.high_watermark.value == 2
    assert partition.as_leader().watermark_for(1) is None
    append(partition, b"c")
    assert partition.high_watermark.value == 2
    assert partition.as_leader().watermark_for(1) is partition.durable


@given(st.integers(1, 5), st.lists(st.sampled_from(["append", "begin", "end"]), max_size=25))
@settings(max_examples=50)
def test_the_high_watermark_never_passes_what_is_on_disk_where_a_flush_is_required(
    tmp_path_factory: pytest.TempPathFactory, flush_messages: int, steps: list[str]
) -> None:
    logs = started_logs(tmp_path_factory.mktemp("logs"))
    partition = host(logs, flush_messages=flush_messages)
    log = partition.log
    running = None
    for step in steps:
        before = partition.high_watermark.value
        if step == "append":
            append(partition, b"v")
            if log.is_flush_required:
                assert partition.high_watermark.value == max(before, log.durable_end)
        elif step == "begin" and running is None:
            running = log.begin_flush()
        elif step == "end" and running is not None:
            running.run()
            log.complete_flush(running, now_ms=0)
            partition.flushed()
            running = None
        assert before <= partition.high_watermark.value <= log.log_end_offset
        assert partition.high_watermark.value < log.durable_end + flush_messages
        assert partition.durable.value <= log.durable_end
    logs.close()


def test_losing_the_lead_answers_all_who_wait(logs: LogManager) -> None:
    partition = host(logs)
    errors: list[KafkaError | None] = []
    partition.high_watermark.wait_for(1, errors.append, token=1)
    partition.durable.wait_for(1, errors.append, token=2)
    partition.apply(LED_BY_2)
    assert [type(error) for error in errors] == [NotLeaderOrFollower, NotLeaderOrFollower]
    assert not partition.is_leader


def test_offsets_outside_the_log_are_out_of_range_and_its_end_is_not(logs: LogManager) -> None:
    partition = host(logs)
    append(partition, b"a", b"b")
    assert read(partition, 2) == 0
    with pytest.raises(OffsetOutOfRange):
        read(partition, 3)
    assert partition.as_leader().delete_records_before(1) == 1
    with pytest.raises(OffsetOutOfRange):
        read(partition, 0)


def test_a_small_limit_gives_the_first_batch_whole_or_not_at_all(logs: LogManager) -> None:
    partition = host(logs)
    append(partition, b"x" * 500)
    assert read(partition, 0, max_bytes=10) > 500
    assert read(partition, 0, max_bytes=10, min_one_batch=False) == 0


def test_records_are_deleted_up_to_what_is_committed_and_not_beyond(logs: LogManager) -> None:
    partition = host(logs, flush_messages=2)
    append(partition, b"a")
    append(partition, b"b")
    assert partition.high_watermark.value == 1
    with pytest.raises(OffsetOutOfRange):
        partition.as_leader().delete_records_before(2)
    with pytest.raises(OffsetOutOfRange):
        partition.as_leader().delete_records_before(-2)
    assert partition.as_leader().delete_records_before(-1) == 1
    assert partition.as_leader().delete_records_before(0) == 0
    assert partition.log.log_start_offset == partition.as_leader().low_watermark.value == 1


def test_a_reader_of_another_history_gets_the_offset_where_it_diverged(logs: LogManager) -> None:
    partition = host(logs)
    append(partition, b"a", b"b")
    partition.apply(LED_BY_1._replace(leader_epoch=5))
    append(partition, b"c")
    assert partition.as_leader().find_divergence(3, 2) is None
    assert partition.as_leader().find_divergence(5, 3) is None
    assert partition.as_leader().find_divergence(4, 3) == (3, 2)
    assert partition.as_leader().find_divergence(3, 3) == (3, 2)


def test_nothing_can_be_done_with_a_partition_whose_disk_is_gone(logs: LogManager, tmp_path: Path) -> None:
    partition = host(logs)
    append(partition, b"a")
    logs.directories[0].fail("testing", OSError(5, "input/output error"))
    with pytest.raises(StorageError):
        append(partition, b"b")
    with pytest.raises(StorageError):
        read(partition, 0)


def test_a_new_leader_has_flushed_what_it_may_only_show_from_disk(logs: LogManager) -> None:
    asked: list[Partition] = []
    partition = host(logs, broker=local_broker(request_flush=asked.append))
    append(partition, b"a")
    partition.log.update_config(LogConfig(flush_messages=1))
    assert not asked
    partition.apply(LED_BY_1._replace(leader_epoch=4, partition_epoch=1))
    assert asked == [partition]


def test_what_was_appended_is_counted_over_all_leader_epochs_and_only_as_the_leader(logs: LogManager) -> None:
    partition = host(logs)
    append(partition, b"a", b"b")
    first = partition.appended
    assert (first.messages, first.size_bytes) == (2, partition.log.size_bytes)
    assert partition.apply(LED_BY_2._replace(leader_epoch=partition.state.leader_epoch + 1, partition_epoch=1))
    assert partition.appended == first
    partition.apply(LED_BY_1._replace(leader_epoch=partition.state.leader_epoch + 1, partition_epoch=2))
    append(partition, b"c")
    assert (partition.appended.messages, partition.appended.size_bytes) == (3, partition.log.size_bytes)
