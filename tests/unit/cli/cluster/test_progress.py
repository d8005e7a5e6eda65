from millstream.cli.cluster.planning.plan import DiskMove, Move
from millstream.cli.cluster.progress import Progress
from millstream.client.admin.disk_admin import Replica
from millstream.topic_partition import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
MIB = 1024 * 1024
MOVES = [Move(A, (1,), (2, 3), 10 * MIB), Move(B, (1,), (2,), 20 * MIB)]


def test_what_new_replicas_have_is_counted_and_what_has_arrived_counts_whole() -> None:
    progress = Progress(MOVES)
    first = progress.at(0.0, {A, B}, {})
    assert (first.partitions_done, first.bytes_done, first.bytes_to_copy, first.rate) == (0, 0, 40 * MIB, None)
    second = progress.at(2.0, {A, B}, {2: {A: 10 * MIB, B: 6 * MIB}, 3: {A: 4 * MIB}})
    assert second.bytes_done == 20 * MIB
    assert (second.rate, second.seconds_left) == (10 * MIB, 2.0)
    assert str(second) == "0 of 2 partitions, 20.0 MiB of 40.0 MiB, 10.0 MiB/s, about 2.0 s left"
    third = progress.at(3.0, {B}, {2: {B: 6 * MIB}})
    assert (third.partitions_done, third.bytes_done) == (1, 26 * MIB)
    end = progress.at(4.0, set(), {})
    assert end.is_done
    assert str(end) == "2 of 2 partitions, 40.0 MiB of 40.0 MiB"


def test_a_partition_that_grows_is_never_more_than_whole() -> None:
    standing = Progress(MOVES).at(0.0, {A, B}, {2: {A: 99 * MIB, B: 99 * MIB}, 3: {A: 99 * MIB}})
    assert (standing.bytes_done, standing.is_done) == (40 * MIB, False)


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    progress = Progress([Move(B, (1,), (2,), 1000 * MIB)])
    for second in range(200):
        standing = progress.at(float(second), {B}, {2: {B: min(second, 100) * MIB}})
    assert standing.rate == 0
    assert standing.seconds_left is None


def test_brokers_without_which_there_is_no_end_are_named() -> None:
    progress = Progress(MOVES)
    assert str(progress.at(0.0, {B}, {}, absent={2, 3})).endswith(", waiting for broker 2, which does not answer")
    assert str(progress.at(0.0, {A, B}, {}, absent={2, 3, 9})).endswith(", waiting for brokers 2, 3, which do not answer")
    assert "waiting" not in str(progress.at(0.0, set(), {}, absent={2, 3}))


def test_without_bytes_partitions_are_counted() -> None:
    assert str(Progress([Move(A, (1,), (2,), 0)]).at(0.0, {A}, {})) == "0 of 1 partitions"


def test_what_moves_between_disks_counts_and_a_partition_counts_once() -> None:
    new, both = Replica(2, A), [Replica(1, B), Replica(2, B)]
    disk_moves = [DiskMove(new, None, "/b", 0), *(DiskMove(replica, "/a", "/b", 10 * MIB) for replica in both)]
    progress = Progress([Move(A, (1,), (2,), 10 * MIB)], disk_moves)
    first = progress.at(0.0, {A}, {}, {new: 0, both[0]: 2 * MIB, both[1]: 99 * MIB})
    assert (first.partitions_done, first.partitions, first.bytes_done, first.bytes_to_copy) == (0, 2, 12 * MIB, 30 * MIB)
    second = progress.at(1.0, (), {}, {new: 0})
    assert (second.partitions_done, second.bytes_done, second.is_done) == (1, 30 * MIB, False)
    assert progress.at(2.0, (), {}, {}).is_done


def test_a_broker_that_does_not_answer_is_waited_for_only_while_something_moves_between_its_disks() -> None:
    progress = Progress([], [DiskMove(Replica(3, A), "/a", "/b", MIB)])
    assert str(progress.at(0.0, (), {}, {Replica(3, A): 0}, absent={3, 4})).endswith(", waiting for broker 3, which does not answer")
    assert "waiting" not in str(progress.at(0.0, (), {}, {}, absent={3, 4}))
