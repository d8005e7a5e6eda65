import pytest

from millstream.cli.cluster.planning.disks import broker_of, empty, even_out, short_of_room
from millstream.client.admin.disk_admin import Disk, Disks, Replica, Stored
from millstream.errors import CommandFailed
from millstream.topic_partition import TopicPartition

MIB = 1024 * 1024


def replica(number: int, broker: int = 1) -> Replica:
    return Replica(broker, TopicPartition("t", number))


def disks_of(*sizes: dict[int, int], free_mib: int | None = None) -> Disks:
    """The directories /0, /1, ... of broker 1, with MiB by partition; broker 2 has the same partitions in /0."""
    paths = tuple(Disk(f"/{number}", free_bytes=None if free_mib is None else free_mib * MIB) for number in range(len(sizes)))
    current = {replica(number): Stored(f"/{index}", size * MIB) for index, own in enumerate(sizes) for number, size in own.items()}
    others = {replica(number, 2): Stored("/0", size * MIB) for own in sizes for number, size in own.items()}
    return Disks({1: paths, 2: (Disk("/0"), Disk("/9"))}, current | others)


def disks_sized(*totals_mib: int | None, replicas: int = 40, size_mib: int = 10, free_mib: int = 10_000) -> Disks:
    """Directories on disks of these sizes; the first has everything."""
    paths = tuple(
        Disk(f"/{number}", free_bytes=free_mib * MIB, total_bytes=None if total is None else total * MIB)
        for number, total in enumerate(totals_mib)
    )
    return Disks({1: paths}, {replica(number): Stored("/0", size_mib * MIB) for number in range(replicas)})


def loads(disks: Disks, wanted: dict[Replica, str]) -> dict[str, list[int]]:
    """The MiB of the replicas of broker 1, by directory."""
    found: dict[str, list[int]] = {disk.path: [] for disk in disks.of_brokers[1]}
    for one, stored in disks.current.items():
        if one.broker == 1:
            found[wanted.get(one, stored.path)].append(stored.size_bytes // MIB)
    return found


def test_a_directory_is_emptied_into_the_emptiest_of_the_others() -> None:
    disks = disks_of({0: 100, 1: 50, 2: 50}, {3: 100}, {})
    wanted = empty(disks, 1, "/0/")
    assert wanted.keys() == {replica(0), replica(1), replica(2)}
    after = loads(disks, wanted)
    assert after["/0"] == []
    assert sum(after["/1"]) in (100, 150, 200)
    assert abs(sum(after["/1"]) - sum(after["/2"])) <= 100


def test_an_empty_directory_needs_nothing() -> None:
    assert empty(disks_of({0: 100}, {}), 1, "/1") == {}


def test_directories_are_evened_out_by_bytes_and_by_number() -> None:
    disks = disks_of(dict.fromkeys(range(10), 10), {})
    after = loads(disks, even_out(disks, 1))
    assert {path: len(sizes) for path, sizes in after.items()} == {"/0": 5, "/1": 5}
    disks = disks_of(dict.fromkeys(range(10), 0), {})
    assert {path: len(sizes) for path, sizes in loads(disks, even_out(disks, 1)).items()} == {"/0": 5, "/1": 5}


def test_what_is_even_and_what_is_alone_stays() -> None:
    assert even_out(disks_of({0: 100}, {1: 95}), 1) == {}
    assert even_out(disks_of({0: 100, 1: 5}), 1) == {}


@pytest.mark.parametrize(
    ("disks", "broker", "path", "words"),
    [
        (disks_of({0: 1}), 1, "/0", "/0 is the only data directory of broker 1"),
        (disks_of({0: 1}, {}), 1, "/7", "broker 1 has no data directory /7; it has /0, /1"),
        (disks_of({0: 1}, {}), 1, "/9", "it is one of broker 2"),
        (disks_of({0: 1}, {}), 3, "/0", "Broker 3 is not there, or does not answer; those that do: 1, 2"),
        (disks_of({0: 100}, {}, free_mib=99), 1, "/0", "/1 of broker 1 has room for 99.0 MiB, and 100.0 MiB would be moved there"),
        (Disks({1: (Disk("/0"), Disk("/1", is_online=False))}), 1, "/1", "/1 of broker 1 is offline. Repair the disk"),
        (Disks({1: (Disk("/0"), Disk("/1", is_online=False))}), 1, "/0", "while one of them is offline: /1. Repair the disk"),
        (Disks({1: (Disk("/data/process.1"),)}), 1, "/data", "(several processes share it, each broker has its own: /data/process.1)"),
        (Disks({1: (Disk("/data/process.1"),)}), 1, "/data/process.1", "is the only data directory of broker 1"),
    ],
)
def test_what_cannot_be_emptied_is_said(disks: Disks, broker: int, path: str, words: str) -> None:
    with pytest.raises(CommandFailed) as refused:
        empty(disks, broker, path)
    assert words in str(refused.value)


def test_a_broker_with_an_offline_directory_is_not_evened_out() -> None:
    with pytest.raises(CommandFailed, match="offline"):
        even_out(Disks({1: (Disk("/0"), Disk("/1", is_online=False))}), 1)


def test_a_directory_that_one_broker_has_needs_no_broker() -> None:
    disks = disks_of({}, {})
    assert broker_of(disks, "/1/", None) == 1
    assert broker_of(disks, "/0", 2) == 2
    with pytest.raises(CommandFailed, match="The brokers 1, 2 have a data directory /0 each: say which with --broker"):
        broker_of(disks, "/0", None)
    with pytest.raises(CommandFailed, match="No broker has a data directory /7; `millstream cluster disks` shows"):
        broker_of(disks, "/7", None)


def test_room_is_that_of_all_that_comes_and_not_of_what_stays() -> None:
    disks = disks_of({0: 60, 1: 60}, {2: 500}, free_mib=100)
    assert short_of_room(disks, {replica(0): "/1", replica(2): "/1"}) == []
    assert len(short_of_room(disks, {replica(0): "/1", replica(1): "/1"})) == 1


@pytest.mark.parametrize("size_mib", [10, 0])
def test_disks_of_different_sizes_get_their_shares(size_mib: int) -> None:
    disks = disks_sized(10_000, 30_000, size_mib=size_mib)
    after = loads(disks, even_out(disks, 1))
    assert {path: len(sizes) for path, sizes in after.items()} == {"/0": 10, "/1": 30}
    disks = disks_sized(50_000, 100_000, 50_000, size_mib=size_mib)
    after = loads(disks, even_out(disks, 1))
    assert {path: len(sizes) for path, sizes in after.items()} == {"/0": 10, "/1": 20, "/2": 10}


def test_disks_that_are_as_full_as_each_other_keep_what_they_have() -> None:
    disks = disks_sized(10_000, 30_000)
    wanted = even_out(disks, 1)
    settled = Disks(disks.of_brokers, {one: stored._replace(path=wanted.get(one, stored.path)) for one, stored in disks.current.items()})
    assert even_out(settled, 1) == {}


def test_disks_of_which_one_does_not_tell_its_size_are_taken_to_be_of_one_size() -> None:
    disks = disks_sized(10_000, None)
    assert len(loads(disks, even_out(disks, 1))["/1"]) in (19, 20)  # to within a tenth


def test_a_directory_is_emptied_into_the_others_by_their_sizes() -> None:
    disks = disks_sized(10_000, 10_000, 30_000)
    assert {path: len(sizes) for path, sizes in loads(disks, empty(disks, 1, "/0")).items()} == {"/0": 0, "/1": 10, "/2": 30}


def test_a_reserve_is_kept_on_the_disk_that_is_moved_to() -> None:
    disks = disks_sized(10_000, 10_000, free_mib=689)
    assert short_of_room(disks, {replica(number): "/1" for number in range(18)}) == []
    with pytest.raises(CommandFailed) as refused:
        even_out(disks, 1)
    assert str(refused.value) == (
        "Nothing was begun: /1 of broker 1 has room for 189.0 MiB (689.0 MiB are free, and 500.0 MiB are kept in reserve), "
        "and 190.0 MiB would be moved there. Make room on /1, or move partitions to other brokers."
    )
    large = Disks({1: (Disk("/0"), Disk("/1", free_bytes=1124 * MIB, total_bytes=10_000_000 * MIB))}, disks.current)
    assert short_of_room(large, {replica(number): "/1" for number in range(10)}) == [], "no more than a gibibyte is"
    assert len(short_of_room(large, {replica(number): "/1" for number in range(11)})) == 1
