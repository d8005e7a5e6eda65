"""Transactions at the leader: what readers of committed data see of them, and when they are called."""

import os

import pytest

from millstream.cluster.partition import Partition
from millstream.cluster.readable_replica import READ_COMMITTED
from millstream.coordination.partition_state import PartitionState
from millstream.errors import InvalidProducerEpoch, NotEnoughReplicas
from millstream.log.directories.manager import LogManager
from millstream.log.transactions.marker import Marker
from millstream.transaction_errors import TransactionCoordinatorFenced
from millstream.wire.batch import TRANSACTIONAL
from millstream.wire.records import ProducerStamp, Record, encode_batch
from tests.unit.cluster.hosting import NOW_MS, RecordingWatcher, append, host

THREE = PartitionState(replicas=(1, 2, 3), leader=1, leader_epoch=3, in_sync_replicas=(1, 2, 3), partition_epoch=5)


def send(partition: Partition, producer_id: int, *, sequence: int = 0, epoch: int = 0) -> int:
    """A batch in a transaction; its offset."""
    producer = ProducerStamp(producer_id, epoch, sequence)
    batch = encode_batch([Record(0, NOW_MS, None, b"x")], producer=producer, flags=TRANSACTIONAL)
    return partition.as_leader().append(batch, acks=-1, now_ms=NOW_MS, is_own=True).base_offset


def end(partition: Partition, producer_id: int, *, is_commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    """The marker of its coordinator; its offset."""
    marker, producer = Marker(is_commit, coordinator_epoch), ProducerStamp(producer_id, epoch)
    return partition.as_leader().append_marker(marker, producer, transaction_version=1, now_ms=NOW_MS)


def committed_read(partition: Partition, offset: int) -> tuple[int, list[tuple[int, int]]]:
    """Size of what a reader of committed data gets, and what it has to leave out."""
    leader = partition.as_leader()
    region = leader.read(offset, end=leader.visible_end(READ_COMMITTED), max_bytes=1 << 20, min_one_batch=True)
    return (region.length, leader.aborted_in(offset, region)) if region else (0, [])


def test_readers_of_committed_data_wait_for_the_marker(logs: LogManager) -> None:
    partition, reader = host(logs), RecordingWatcher()
    append(partition, b"plain")
    send(partition, 7)
    append(partition, b"plain")
    leader = partition.as_leader()
    assert (leader.visible_end(READ_COMMITTED), leader.visible_end(0), leader.last_stable_offset) == (1, 3, 1)
    assert committed_read(partition, 1) == (0, [])
    partition.watchers.add(reader, is_replica=False)
    assert leader.has_open_transaction(7, 0)
    assert not leader.has_open_transaction(7, 1)
    assert end(partition, 7, is_commit=False) == 3
    assert reader.calls == ["moved"]
    assert not leader.has_open_transaction(7, 0)
    assert leader.visible_end(READ_COMMITTED) == 4
    assert committed_read(partition, 0)[1] == committed_read(partition, 3)[1] == [(7, 1)]


def test_a_marker_counts_when_all_in_sync_replicas_have_it(logs: LogManager) -> None:
    partition, reader = host(logs, state=THREE), RecordingWatcher()
    leader = partition.as_leader()
    send(partition, 7)
    end(partition, 7, is_commit=True)
    partition.watchers.add(reader, is_replica=False)
    for replica in (2, 3):
        leader.replica_fetched(replica, 70, 1, 0)
    assert (partition.high_watermark.value, leader.last_stable_offset, reader.calls) == (1, 0, ["moved"])
    partition.watchers.add(reader, is_replica=False)
    leader.replica_fetched(2, 70, 2, 0)
    assert (leader.last_stable_offset, reader.calls) == (0, ["moved"])
    leader.replica_fetched(3, 70, 2, 0)
    assert (leader.last_stable_offset, reader.calls) == (2, ["moved", "moved"])


def test_a_marker_needs_enough_replicas_and_present_epochs(logs: LogManager) -> None:
    partition = host(logs, state=THREE._replace(in_sync_replicas=(1,)), min_insync_replicas=2)
    with pytest.raises(NotEnoughReplicas):
        end(partition, 7, is_commit=True)
    other = host(logs, topic="other")
    send(other, 7, epoch=2)
    end(other, 7, is_commit=True, epoch=2, coordinator_epoch=4)
    with pytest.raises(TransactionCoordinatorFenced):
        end(other, 7, is_commit=True, epoch=2, coordinator_epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        end(other, 7, is_commit=True, epoch=1, coordinator_epoch=4)
    assert other.log.log_end_offset == 2


def test_who_begins_to_lead_knows_what_is_open(logs: LogManager) -> None:
    partition = host(logs)
    send(partition, 7)
    partition.apply(partition.state._replace(leader_epoch=9))
    leader = partition.as_leader()
    assert leader.leader_epoch == 9
    assert (leader.last_stable_offset, leader.has_open_transaction(7, 0)) == (0, True)


def test_nothing_is_kept_of_transactions_that_nobody_reads(logs: LogManager) -> None:
    """A topic without consumers, or the log of a follower, may see millions of them."""
    leader, follower = host(logs), host(logs, topic="copy", state=THREE._replace(leader=2))
    for number in range(10):
        send(leader, 7, sequence=number)
        end(leader, 7, is_commit=True)
    region = leader.log.read(0, max_bytes=1 << 20, limit_offset=20)
    assert region is not None
    copied = os.pread(region.handle.fd, region.length, region.position)
    assert follower.following is not None
    follower.following.append(memoryview(copied), high_watermark=19, leader_log_start=0)
    kept = [one.log.producers.transactions for one in (leader, follower)]
    assert [list(one.decided) for one in kept if one is not None] == [[], [(18, 19)]]
