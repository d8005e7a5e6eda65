import asyncio
import errno
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.broker.replication import fetcher
from millstream.broker.replication.fetchers import CUT_AT_ONCE
from millstream.broker.replication.leader_offsets import LeaderOffsets
from millstream.buffer import Buffer
from millstream.cluster.follower import Follower
from millstream.files import FileHandle, Files
from tests.unit.broker.replication.replica_broker import TOPIC, replica_cluster
from tests.unit.cluster.slow_disk import SlowDisk
from tests.waiting import eventually


async def test_followers_have_what_the_leader_has_byte_for_byte(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path, count=3) as cluster:
        await cluster.lead(1, epoch=0)
        leader, *followers = cluster.brokers.values()
        for number in range(5):
            leader.append(b"one", b"two %d" % number)
        await cluster.until_equal()
        for follower in followers:
            assert follower.content() == leader.content()
            log = follower.partition().log
            assert (log.log_end_offset, log.epochs.entries) == (10, [(0, 0)])


async def test_a_follower_learns_the_high_watermark_and_never_more_than_it_has(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path) as cluster:
        await cluster.lead(1, epoch=0)
        cluster.brokers[1].append(b"a", b"b")
        await cluster.until_equal()
        follower = cluster.brokers[2].partition()
        await eventually(lambda: follower.high_watermark.value == 2)


async def test_a_new_partition_is_fetched_without_a_new_session(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path) as cluster:
        await cluster.lead(1, epoch=0)
        cluster.brokers[1].append(b"a")
        await cluster.until_equal()
        await cluster.lead(1, epoch=1, partitions=3)
        for index in range(3):
            cluster.brokers[1].append(b"b", index=index)
        for index in range(3):
            await cluster.until_equal(index)


async def test_a_partition_that_comes_while_a_fetch_waits_is_not_kept_waiting(tmp_path: Path) -> None:
    """Or else a produce with acks=all after a change of leaders would wait for half a second."""
    async with replica_cluster(tmp_path, options={"replica.fetch.wait.max.ms": "15000"}) as cluster:
        await cluster.lead(1, epoch=0)
        cluster.brokers[1].append(b"a")
        await cluster.until_equal()
        await cluster.lead(1, epoch=1, partitions=2)
        cluster.brokers[1].append(b"b", index=1)
        async with asyncio.timeout(5):
            await cluster.until_equal(1)
            cluster.brokers[1].append(b"c")
            await cluster.until_equal()


async def test_the_number_of_fetchers_can_be_changed(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path) as cluster:
        await cluster.lead(1, epoch=0, partitions=4)
        follower = cluster.brokers[2]
        follower.configure({"num.replica.fetchers": "3"})
        assert len(follower.fetchers._fetchers) == 3
        for index in range(4):
            cluster.brokers[1].append(b"x", index=index)
        for index in range(4):
            await cluster.until_equal(index)
        follower.configure({"num.replica.fetchers": "1"})
        assert len(follower.fetchers._fetchers) == 1
        cluster.brokers[1].append(b"y")
        await cluster.until_equal()


async def test_leaders_change_and_what_diverged_is_cut_off(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path) as cluster:
        first, second = cluster.brokers.values()
        await cluster.lead(1, epoch=0)
        first.append(b"both")
        await cluster.until_equal()
        await cluster.lead(2, epoch=1, only=[2])
        first.append(b"only the first", b"believes in this")
        second.append(b"second")
        await cluster.announce()
        await cluster.until_equal()
        assert first.content() == second.content()
        assert first.partition().log.epochs.entries == [(0, 0), (1, 1)]


async def test_an_answer_of_a_former_epoch_says_nothing(tmp_path: Path) -> None:
    """The follower knows a later epoch than its leader: it waits for the leader to hear of it."""
    async with replica_cluster(tmp_path) as cluster:
        await cluster.lead(1, epoch=0)
        cluster.brokers[1].append(b"a")
        await cluster.until_equal()
        await cluster.lead(1, epoch=1, only=[2])
        cluster.brokers[1].append(b"in epoch 0")
        await asyncio.sleep(0.2)
        assert cluster.brokers[2].partition().log.log_end_offset == 1
        await cluster.announce()
        await cluster.until_equal()


async def test_a_follower_behind_the_start_of_the_leader_begins_anew_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with replica_cluster(tmp_path) as cluster:
        leader, follower = cluster.brokers.values()
        await cluster.lead(1, epoch=0, only=[1], in_sync=[1])
        for _ in range(4):
            leader.append(b"x" * 100)
        leader.partition().as_leader().delete_records_before(4)
        leader.append(b"kept")
        await cluster.announce()
        await cluster.until_equal()
        assert (follower.partition().log.log_start_offset, follower.partition().log.log_end_offset) == (4, 5)
        assert "begins at 4: it begins anew there" in caplog.text


async def test_a_leader_that_begins_inside_a_batch_is_followed_with_the_whole_batch(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path) as cluster:
        leader, follower = cluster.brokers.values()
        await cluster.lead(1, epoch=0, only=[1], in_sync=[1])
        leader.append(b"a", b"b", b"c")
        leader.partition().as_leader().delete_records_before(2)
        await cluster.announce()
        await cluster.until_equal()
        log = follower.partition().log
        assert (log.log_start_offset, log.log_end_offset, follower.content()) == (2, 3, leader.content())


async def test_a_follower_ahead_of_the_leader_without_known_epochs_is_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with replica_cluster(tmp_path) as cluster:
        leader, follower = cluster.brokers.values()
        await cluster.lead(2, epoch=0, only=[2], in_sync=[2])
        follower.append(b"a", b"b", b"c")
        await cluster.lead(1, epoch=1, only=[1], in_sync=[1])
        leader.append(b"other")
        follower.partition().log.epochs.clear()
        await cluster.announce()
        await cluster.until_equal()
        assert follower.content() == leader.content()
        assert "what is beyond is cut off" in caplog.text


async def test_a_follower_of_which_nothing_is_known_to_the_leader_asks_with_growing_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last epoch is later than all that the leader has had: somebody restored an older tree of znodes."""
    async with replica_cluster(tmp_path) as cluster:
        leader, follower = cluster.brokers.values()
        await cluster.lead(2, epoch=9, only=[2], in_sync=[2])
        follower.append(b"a")
        await cluster.lead(1, epoch=10, only=[1], in_sync=[1])
        leader.append(b"b", b"c")
        leader.partition().log.epochs.clear()
        leader.partition().log.epochs.assign(8, 0)
        asked = 0
        real = LeaderOffsets.range_of

        async def counted(offsets: LeaderOffsets, role: Follower) -> tuple[int, int]:
            nonlocal asked
            asked += 1
            return await real(offsets, role)

        monkeypatch.setattr(LeaderOffsets, "range_of", counted)
        await cluster.announce()
        await asyncio.sleep(0.5)
        assert 1 < asked < 20


async def test_deleted_records_are_deleted_at_the_follower(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path) as cluster:
        await cluster.lead(1, epoch=0)
        for _ in range(3):
            cluster.brokers[1].append(b"x")
        await cluster.until_equal()
        cluster.brokers[1].partition().as_leader().delete_records_before(2)
        await eventually(lambda: cluster.brokers[2].partition().log.log_start_offset == 2)


async def test_a_leader_that_restarted_elsewhere_is_found(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path) as cluster:
        await cluster.lead(1, epoch=0)
        leader = cluster.brokers[1]
        leader.append(b"a")
        await cluster.until_equal()
        leader.listener.close()
        address = leader.listener.bind("127.0.0.1", 0)
        leader.listener.start()
        leader.append(b"b")
        leader.address = address
        cluster.view = replace(cluster.view, brokers={**cluster.view.brokers, 1: leader.registration})
        await cluster.announce()
        await cluster.until_equal()


async def test_a_session_that_the_leader_forgot_is_begun_anew(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path) as cluster:
        await cluster.lead(1, epoch=0, partitions=2)
        leader = cluster.brokers[1]
        leader.append(b"a")
        await cluster.until_equal()
        assert len(leader.sessions) == 1
        leader.sessions._sessions.clear()
        leader.append(b"b")
        leader.append(b"c", index=1)
        await cluster.until_equal()
        await cluster.until_equal(1)
        assert len(leader.sessions) == 1


async def test_what_rotted_at_the_leader_is_not_copied_and_does_not_hold_up_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with replica_cluster(tmp_path) as cluster:
        leader, follower = cluster.brokers.values()
        await cluster.lead(1, epoch=0, partitions=2, only=[1], in_sync=[1])
        leader.append(b"a")
        leader.append(b"rotten")
        path = leader.partition().log.segments.active.path()
        content = path.read_bytes()
        path.write_bytes(content.replace(b"rotten", b"ROTTEN"))
        await cluster.announce()
        leader.append(b"b", index=1)
        await cluster.until_equal(1)
        await eventually(lambda: "the leader sent a damaged batch for offset 1" in caplog.text)
        assert follower.partition().log.log_end_offset == 0
        path.write_bytes(content)
        await cluster.until_equal()


async def test_a_stop_waits_for_a_log_that_is_being_cut(tmp_path: Path) -> None:
    disk = SlowDisk()
    async with replica_cluster(tmp_path, files={1: disk}) as cluster:
        first, second = cluster.brokers.values()
        await cluster.lead(1, epoch=0, only=[1], in_sync=[1])
        first.append(b"only here", b"and of no worth")
        disk.may_sync.clear()
        await cluster.lead(2, epoch=1, in_sync=[2])
        second.append(b"x")
        log = first.partition().log
        await eventually(lambda: log.is_truncating)
        stopping = asyncio.create_task(first.tasks.stop())
        await asyncio.sleep(0.02)
        assert not stopping.done()
        disk.may_sync.set()
        await stopping
        assert (log.is_truncating, log.log_end_offset) == (False, 0)


async def test_many_logs_are_cut_a_few_at_a_time_and_only_while_they_are_followed(tmp_path: Path) -> None:
    count, disk = 3 * CUT_AT_ONCE, SlowDisk()
    async with replica_cluster(tmp_path, files={1: disk}) as cluster:
        first, second = cluster.brokers.values()
        await cluster.lead(1, epoch=0, only=[1], in_sync=[1], partitions=count)
        for index in range(count):
            first.append(b"only here", index=index)
        disk.may_sync.clear()
        await cluster.lead(2, epoch=1, in_sync=[2], partitions=count)
        for index in range(count):
            second.append(b"x", index=index)
        logs = [first.partition(index).log for index in range(count)]
        await eventually(lambda: sum(log.is_truncating for log in logs) == CUT_AT_ONCE)
        async with asyncio.timeout(20):
            await asyncio.to_thread(int)  # as new logs are opened
        assert sum(log.is_truncating for log in logs) == CUT_AT_ONCE
        waiting = [index for index, log in enumerate(logs) if not log.is_truncating]
        await cluster.lead(1, epoch=2, only=[1], in_sync=[1], partitions=count)
        disk.may_sync.set()
        await eventually(lambda: all(first.partition(index).is_leader for index in range(count)))
        assert all(logs[index].log_end_offset == 1 for index in waiting), "what is led is not cut"
        assert [log.log_end_offset for log in logs].count(0) == CUT_AT_ONCE


class FullDisk(Files):
    """A disk on which nothing can be written to logs any more, once it is full."""

    is_full = False

    def pwritev(self, handle: FileHandle, buffers: Sequence[Buffer], position: int) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().pwritev(handle, buffers, position)


async def test_a_partition_whose_disk_failed_is_given_up_and_the_others_go_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = FullDisk()
    async with replica_cluster(tmp_path, count=3, files={2: disk}) as cluster:
        await cluster.lead(1, epoch=0, partitions=2)
        leader = cluster.brokers[1]
        for index in range(2):
            leader.append(b"a", index=index)
            await cluster.until_equal(index)
        disk.is_full = True
        leader.append(b"b")
        third = cluster.brokers[3].partition()
        await eventually(
            lambda: third.log.log_end_offset == 2 and "orders-0 is offline here and not copied from broker 1 any more" in caplog.text
        )
        assert cluster.brokers[2].partition().log.log_end_offset == 1


async def test_what_is_in_a_directory_that_failed_is_not_fetched_whatever_the_view_says(tmp_path: Path) -> None:
    """A fetch would tell the leader that the replica has all that is committed, and is in sync: producers would wait for it."""
    disk = FullDisk()
    async with replica_cluster(tmp_path, files={2: disk}) as cluster:
        await cluster.lead(1, epoch=0, partitions=2)
        leader, follower = cluster.brokers.values()
        leader.append(b"a")
        await cluster.until_equal()
        disk.is_full = True
        leader.append(b"b")
        directory = follower.partition().log.directory
        await eventually(lambda: directory.offline is not None)
        assert follower.fetchers._fetchers, "the partition that had nothing to write is fetched still"
        follower.fetchers.directory_failed(directory)
        assert not follower.fetchers._fetchers
        await cluster.lead(1, epoch=1, partitions=2)
        assert not follower.fetchers._fetchers


async def test_one_more_fetcher_per_leader_shares_the_partitions(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path, options={"num.replica.fetchers": "2"}) as cluster:
        await cluster.lead(1, epoch=0, partitions=4)
        for index in range(4):
            cluster.brokers[1].append(b"x", index=index)
        for index in range(4):
            await cluster.until_equal(index)
        assert len(cluster.brokers[2].fetchers._fetchers) == 2


async def test_fetchers_end_with_their_last_partition(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path) as cluster:
        await cluster.lead(1, epoch=0)
        assert len(cluster.brokers[2].fetchers._fetchers) == 1
        await cluster.lead(2, epoch=1)
        assert len(cluster.brokers[2].fetchers._fetchers) == 0
        cluster.brokers[2].append(b"x")
        await cluster.until_equal()


async def test_a_follower_that_has_to_flush_says_nothing_of_what_is_not_on_disk(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path) as cluster:
        await cluster.lead(1, epoch=0, flush_messages="1")
        follower = cluster.brokers[2].partition()
        for number in range(10):
            cluster.brokers[1].append(b"%d" % number)
            await eventually(lambda number=number: cluster.brokers[1].partition().high_watermark.value == number + 1)  # type: ignore[misc]
            assert follower.log.durable_end >= number + 1


async def test_what_was_not_flushed_before_it_had_to_be_is_flushed(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path) as cluster:
        await cluster.lead(1, epoch=0)
        cluster.brokers[1].append(b"a", b"b")
        await cluster.until_equal()
        follower = cluster.brokers[2].partition()
        assert follower.log.durable_end == 0
        await cluster.lead(1, epoch=1, flush_messages="1")
        await eventually(lambda: follower.log.durable_end == 2)


class FewDescriptors(SlowDisk):
    """A disk whose syncs lack descriptors, once they may go on."""

    def fsync(self, handle: FileHandle) -> None:
        if not self.may_sync.is_set() and handle.path.suffix == ".log":
            assert self.may_sync.wait(20)
            raise OSError(errno.EMFILE, "too many open files")
        super().fsync(handle)


async def test_a_flush_that_fails_after_the_partition_went_elsewhere_ends_nothing(tmp_path: Path) -> None:
    disk = FewDescriptors()
    async with replica_cluster(tmp_path, files={2: disk}) as cluster:
        await cluster.lead(1, epoch=0, partitions=2, flush_messages="1")
        leader, follower = cluster.brokers.values()
        for index in range(2):
            leader.append(b"a", index=index)
            await cluster.until_equal(index)
        disk.may_sync.clear()
        leader.append(b"b")
        await eventually(lambda: follower.partition().durable.is_awaited)
        topic = cluster.view.topics[TOPIC]
        moved = topic.partitions[0]._replace(leader=2, leader_epoch=1, partition_epoch=1)
        cluster.view = cluster.view.with_topics({TOPIC: replace(topic, partitions=(moved, topic.partitions[1]))})
        await cluster.announce()
        disk.may_sync.set()
        leader.append(b"c", index=1)
        await cluster.until_equal(1)
        await asyncio.sleep(0.2)
        leader.append(b"d", index=1)
        await cluster.until_equal(1)


async def test_nothing_waits_for_a_follower_that_was_about_to_join_and_is_gone(tmp_path: Path) -> None:
    async with replica_cluster(tmp_path) as cluster:
        await cluster.lead(1, epoch=0, in_sync=[1])
        leader, follower = cluster.brokers.values()
        leader.append(b"a")
        replica_set = leader.partition().as_leader().replica_set
        await eventually(lambda: replica_set.high_watermark == 1 and replica_set.may_join(2))
        follower.fetchers.close()
        end, partition = leader.append(b"b"), leader.partition()
        assert partition.high_watermark.value == 1
        waiting = asyncio.create_task(partition.high_watermark.reached(end))
        await asyncio.sleep(0)
        cluster.view = replace(cluster.view, brokers={1: leader.registration})
        await cluster.announce(1)
        async with asyncio.timeout(5):
            await waiting


async def test_a_large_answer_is_appended_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "TURN_S", -1.0)  # every turn is over at once
    async with replica_cluster(tmp_path) as cluster:
        leader, follower = cluster.brokers.values()
        await cluster.lead(1, epoch=0, partitions=8, only=[1])
        for index in range(8):
            leader.append(b"x" * 100_000, index=index)
        await cluster.announce()
        ends = set[int]()
        async with asyncio.timeout(20):
            while not all(cluster._are_equal(index) for index in range(8)):
                await asyncio.sleep(0)
                ends.add(sum(partition.log.log_end_offset for partition in follower.replicas))
        assert ends >= set(range(1, 8)), "others had their turn after each partition"
